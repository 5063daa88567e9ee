// The jobs' curves over each other. Zooming shows the same points larger.
import { useMemo, useState } from "preact/hooks";
import type { Comparison } from "../../api/types.ts";
import { Empty } from "../../parts/standing.tsx";
import { Chart } from "../../plots/chart.tsx";
import type { Range } from "../../plots/marks.ts";
import { overlayOf, type By } from "../../plots/overlay.ts";
import { duration, number, scale, stepWords, whole } from "../../words/format.ts";

export function Overlays({ comparison, by }: { comparison: Comparison; by: By }) {
  const { x, panels } = useMemo(() => overlayOf(comparison.jobs, by), [comparison, by]);
  const [zoom, setZoom] = useState<{ by: By; range: Range } | null>(null);
  const all: Range = [0, x.at(-1) ?? 1];
  const shown = zoom?.by === by ? zoom.range : all;
  if (panels.length === 0) return <Empty title="No steps yet">The plots begin with the first steps of these jobs.</Empty>;
  return (
    <div class="stack">
      <div class="row spread">
        <p class="muted">
          {comparison.steps_per_point > 1 ? `A point is the mean of ${whole(comparison.steps_per_point)} steps.` : "Every step is a point."}{" "}
          Drag over a plot to zoom.
        </p>
        <button type="button" class="button small" disabled={shown === all} onClick={() => setZoom(null)}>Whole run</button>
      </div>
      <div class="plots">
        {panels.map(({ key, ...panel }, index) => (
          <Chart
            {...panel}
            key={key}
            x={x}
            range={shown}
            hasAxis={index === panels.length - 1}
            group="compare"
            xWords={by === "time" ? timeWords : stepWords}
            words={panel.isLog2 ? scale : number}
            onZoom={(range) => setZoom({ by, range })}
            onReset={() => setZoom(null)}
          />
        ))}
      </div>
    </div>
  );
}

function timeWords(value: number): string {
  return value === 0 ? "0 s" : duration(value);
}
