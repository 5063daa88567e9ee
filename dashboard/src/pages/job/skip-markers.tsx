// The strip above the plots with the markers of skipped steps. Tab reaches one marker; the arrow
// keys move to the others.
import { useMemo, useState } from "preact/hooks";
import type { Steps } from "../../api/types.ts";
import { Y_AXIS_PX, RIGHT_PADDING_PX } from "../../plots/chart-props.ts";
import { skipMarkers, markerLabel, type SkipMarker, type StepRange } from "../../plots/skip-markers.ts";

const KEY_MOVES: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };

export function SkipMarkers({ steps, range, onOpen }: { steps: Steps; range: StepRange; onOpen: (marker: SkipMarker) => void }) {
  const markers = useMemo(() => skipMarkers(steps, range), [steps, range[0], range[1]]);
  const [at, setAt] = useState(0);
  const move = (event: KeyboardEvent & { currentTarget: HTMLElement }) => {
    const by = KEY_MOVES[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = Math.min(markers.length - 1, Math.max(0, at + by));
    setAt(next);
    (event.currentTarget.children[next] as HTMLElement | undefined)?.focus();
  };
  if (markers.length === 0) return <div class="skip-markers"><p class="none">No skipped steps in this range</p></div>;
  return (
    <div class="skip-markers" role="toolbar" aria-label="Skipped steps" onKeyDown={move}>
      {/* Keyed by position: a marker that is merged with others keeps the focus. */}
      {markers.map((marker, index) => (
        <button
          key={index}
          type="button"
          class={`skip-marker ${marker.count > 1 ? "many" : ""}`}
          style={{ left: markerLeft(marker, range) }}
          title={markerLabel(marker)}
          aria-label={markerLabel(marker)}
          tabIndex={index === Math.min(at, markers.length - 1) ? 0 : -1}
          onFocus={() => setAt(index)}
          onClick={() => onOpen(marker)}
        />
      ))}
    </div>
  );
}

/** The CSS position above the marker's step in the plots. */
function markerLeft(marker: SkipMarker, range: StepRange): string {
  const share = ((marker.first + marker.last) / 2 - range[0]) / Math.max(1, range[1] - range[0]);
  const clamped = Math.min(1, Math.max(0, share));
  return `calc(${Y_AXIS_PX}px + ${clamped} * (100% - ${Y_AXIS_PX + RIGHT_PADDING_PX}px))`;
}
