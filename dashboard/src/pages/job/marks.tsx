// A strip over the plots with a mark for every skipped step. One mark is in the order of the Tab
// key, the arrow keys lead to the others.
import { useMemo, useState } from "preact/hooks";
import type { Steps } from "../../api/types.ts";
import { AXIS_PX, RIGHT_PX } from "../../plots/chart.tsx";
import { marksOf, wordsOf, type Mark, type Range } from "../../plots/marks.ts";

const MOVES: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };

export function Marks({ steps, range, onOpen }: { steps: Steps; range: Range; onOpen: (mark: Mark) => void }) {
  const marks = useMemo(() => marksOf(steps, range), [steps, range[0], range[1]]);
  const [at, setAt] = useState(0);
  const move = (event: KeyboardEvent & { currentTarget: HTMLElement }) => {
    const by = MOVES[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = Math.min(marks.length - 1, Math.max(0, at + by));
    setAt(next);
    (event.currentTarget.children[next] as HTMLElement | undefined)?.focus();
  };
  if (marks.length === 0) return <div class="marks"><p class="none">No skipped steps here</p></div>;
  return (
    <div class="marks" role="toolbar" aria-label="Skipped steps" onKeyDown={move}>
      {marks.map((mark, index) => (
        <button
          key={mark.first}
          type="button"
          class={`mark ${mark.count > 1 ? "many" : ""}`}
          style={{ left: placeOf(mark, range) }}
          title={wordsOf(mark)}
          aria-label={wordsOf(mark)}
          tabIndex={index === Math.min(at, marks.length - 1) ? 0 : -1}
          onFocus={() => setAt(index)}
          onClick={() => onOpen(mark)}
        />
      ))}
    </div>
  );
}

/** Over the mark's step in the plots below. */
function placeOf(mark: Mark, range: Range): string {
  const share = ((mark.first + mark.last) / 2 - range[0]) / Math.max(1, range[1] - range[0]);
  const clamped = Math.min(1, Math.max(0, share));
  return `calc(${AXIS_PX}px + ${clamped} * (100% - ${AXIS_PX + RIGHT_PX}px))`;
}
