// The curves of the compared jobs in shared plots, or of groups of them. Zooming enlarges the loaded
// points; it does not load more points.
import { useMemo, useState } from "preact/hooks";
import { EmptyState } from "../../components/load-state.tsx";
import { Chart, Legend } from "../../plots/chart.tsx";
import { groupPanel } from "../../plots/groups.ts";
import type { StepRange } from "../../plots/skip-markers.ts";
import { ColumnsChoice, SmoothingSlider } from "../../plots/settings/controls.tsx";
import { SettingItems } from "../../plots/settings/items.tsx";
import type { PlotSettings } from "../../plots/settings/settings.ts";
import { smoothPanel } from "../../plots/smoothing.ts";
import { overlayPanels, type XAxis } from "../../plots/overlay.ts";
import { duration, number, lossScale, stepLabel, integer } from "../../display/format.ts";
import { groupable, groupsOf } from "./columns.ts";
import { MAX_SIDE_BY_SIDE } from "./query.ts";
import type { CompareViewProps } from "./view-props.ts";

export function ComparePlots({ comparison, columns, selection, onChange }: CompareViewProps) {
  const { by, plots: settings } = selection;
  const [zoom, setZoom] = useState<{ by: XAxis; range: StepRange } | null>(null);
  const [moving, setMoving] = useState<number | null>(null);
  const smoothing = moving ?? settings.smoothing;
  const overlay = useMemo(() => overlayPanels(comparison.jobs, by), [comparison, by]);
  const grouping = groupable(columns).find(({ key }) => key === selection.group);
  const groups = useMemo(() => grouping && groupsOf(grouping), [grouping]);
  const names = groups?.map(({ name }) => name) ?? overlay.names;
  const isDense = names.length > MAX_SIDE_BY_SIDE;
  const { x } = overlay;
  const panels = useMemo(
    () => overlay.panels.map((panel) => {
      const smoothed = smoothPanel(panel, smoothing);
      if (groups) return groupPanel(smoothed, x, groups);
      // So many raw curves would hide the smoothed ones.
      return isDense ? { ...smoothed, curves: smoothed.curves.map(({ raw, ...curve }) => curve) } : smoothed;
    }),
    [overlay, groups, smoothing, isDense],
  );
  const all: StepRange = [0, x.at(-1) ?? 1];
  const shown = zoom?.by === by ? zoom.range : all;
  const change = (changes: Partial<PlotSettings>) => onChange({ plots: { ...settings, ...changes } });
  if (panels.length === 0) return <EmptyState title="No steps yet">Plots appear after the first steps of these jobs.</EmptyState>;
  return (
    <div class="stack">
      <div class="row spread">
        <p class="muted">
          {comparison.steps_per_point > 1 ? `Each point is the mean of ${integer(comparison.steps_per_point)} steps.` : "Each point is one step."}{" "}
          {groups && "Each curve is the mean of a group; the band spans its smallest to its largest value. "}
          Drag across a plot to zoom.
        </p>
        <button type="button" class="button small" disabled={shown === all} onClick={() => setZoom(null)}>Reset zoom</button>
      </div>
      <div class="row plot-controls" role="group" aria-label="Plot settings">
        <label class="field">
          <span>Group by</span>
          <select value={grouping?.key ?? ""} onChange={(event) => onChange({ group: event.currentTarget.value })}>
            <option value="">No groups</option>
            {groupable(columns).map(({ key, title }) => <option key={key} value={key}>{title}</option>)}
          </select>
        </label>
        <SmoothingSlider settings={settings} onChange={change} onMove={setMoving} />
        <ColumnsChoice settings={settings} onChange={change} />
      </div>
      <p class="legend" role="group" aria-label="Legend">
        {isDense ? `${names.length} ${groups ? "groups" : "jobs"}: point at a curve to see which it is.` : <Legend names={names} titles={groups ? names : comparison.jobs.map(({ job }) => job.name)} />}
      </p>
      <div class={`plots ${settings.columns ? `columns-${settings.columns}` : ""}`}>
        {panels.map(({ key, ...panel }) => (
          <Chart
            {...panel}
            key={key}
            x={x}
            range={shown}
            showsLegend={false}
            isDense={isDense}
            isLogarithmic={settings.logarithmic.includes(key)}
            limits={settings.limits.get(key)}
            cursorGroup="compare"
            formatX={by === "time" ? formatTime : stepLabel}
            formatValue={panel.isLossScale ? lossScale : number}
            onZoom={(range) => setZoom({ by, range })}
            onReset={() => setZoom(null)}
            exportName="compare"
            xTitle={by === "time" ? "training time (s)" : "step"}
            menu={<SettingItems panel={{ key, ...panel }} settings={settings} onChange={change} />}
          />
        ))}
      </div>
    </div>
  );
}

function formatTime(value: number): string {
  return value === 0 ? "0 s" : duration(value);
}
