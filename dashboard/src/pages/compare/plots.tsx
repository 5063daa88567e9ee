// The curves of the compared jobs in shared plots, under one legend. Zooming enlarges the loaded
// points; it does not load more points.
import { useMemo, useState } from "preact/hooks";
import type { Comparison } from "../../api/types.ts";
import { EmptyState } from "../../components/load-state.tsx";
import { Chart, Legend } from "../../plots/chart.tsx";
import type { StepRange } from "../../plots/skip-markers.ts";
import { overlayPanels, type XAxis } from "../../plots/overlay.ts";
import { duration, number, lossScale, stepLabel, integer } from "../../display/format.ts";

export function ComparePlots({ comparison, by }: { comparison: Comparison; by: XAxis }) {
  const { x, names, panels } = useMemo(() => overlayPanels(comparison.jobs, by), [comparison, by]);
  const [zoom, setZoom] = useState<{ by: XAxis; range: StepRange } | null>(null);
  const all: StepRange = [0, x.at(-1) ?? 1];
  const shown = zoom?.by === by ? zoom.range : all;
  if (panels.length === 0) return <EmptyState title="No steps yet">Plots appear after the first steps of these jobs.</EmptyState>;
  return (
    <div class="stack">
      <div class="row spread">
        <p class="muted">
          {comparison.steps_per_point > 1 ? `Each point is the mean of ${integer(comparison.steps_per_point)} steps.` : "Each point is one step."}{" "}
          Drag across a plot to zoom.
        </p>
        <button type="button" class="button small" disabled={shown === all} onClick={() => setZoom(null)}>Reset zoom</button>
      </div>
      <p class="legend" role="group" aria-label="Legend">
        <Legend names={names} titles={comparison.jobs.map(({ job }) => job.name)} />
      </p>
      <div class="plots">
        {panels.map(({ key, ...panel }) => (
          <Chart
            {...panel}
            key={key}
            x={x}
            range={shown}
            showsLegend={false}
            isLogarithmic={false}
            cursorGroup="compare"
            formatX={by === "time" ? formatTime : stepLabel}
            formatValue={panel.isLossScale ? lossScale : number}
            onZoom={(range) => setZoom({ by, range })}
            onReset={() => setZoom(null)}
          />
        ))}
      </div>
    </div>
  );
}

function formatTime(value: number): string {
  return value === 0 ? "0 s" : duration(value);
}
