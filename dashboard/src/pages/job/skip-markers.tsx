// The strip above the plots with the markers of skipped steps. Tab reaches one marker; the arrow
// keys move to the others.
import { useState } from "preact/hooks";
import { Y_AXIS_PX, RIGHT_PADDING_PX } from "../../plots/chart-props.ts";
import { markerLabel, middleOf, type SkipMarker, type StepRange } from "../../plots/skip-markers.ts";

const KEY_MOVES: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };

interface Props {
  markers: readonly SkipMarker[];
  /** The range of the x axis, and the place of a step on it. */
  range: StepRange;
  toX: (step: number) => number;
  onOpen: (marker: SkipMarker) => void;
}

export function SkipMarkers({ markers, range, toX, onOpen }: Props) {
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
          style={{ left: markerLeft(toX(middleOf(marker)), range) }}
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

/** The CSS position of an x, which is that in the plots where they are as wide. */
function markerLeft(x: number, range: StepRange): string {
  const share = (x - range[0]) / (range[1] - range[0] || 1);
  const clamped = Math.min(1, Math.max(0, share));
  return `calc(${Y_AXIS_PX}px + ${clamped} * (100% - ${Y_AXIS_PX + RIGHT_PADDING_PX}px))`;
}
