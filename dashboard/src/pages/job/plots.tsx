// The plots of a job's steps. Only the steps in view are requested, downsampled to a thousand
// points, so that a long run costs no more than a short one.
import { useCallback, useMemo, useState } from "preact/hooks";
import { routeHref, go, queryString } from "../../router.ts";
import type { Evaluation, Job, Steps } from "../../api/types.ts";
import { usePoll } from "../../api/use-poll.ts";
import { EmptyState, LoadingState, LoadState } from "../../components/load-state.tsx";
import { Chart } from "../../plots/chart.tsx";
import { middleOf, skipMarkers, type SkipMarker, type StepRange } from "../../plots/skip-markers.ts";
import { jobPanels, plottableColumns, type Columns, type Panel } from "../../plots/curves.ts";
import { metricLines, withMetrics } from "../../plots/evaluations.ts";
import { parseSettings, settingsQuery, type PlotSettings } from "../../plots/settings/settings.ts";
import { SettingItems } from "../../plots/settings/items.tsx";
import { smoothPanel } from "../../plots/smoothing.ts";
import { STEPS, xKinds, xLabel, xMap, type XMap } from "../../plots/x-axis.ts";
import { number, lossScale } from "../../display/format.ts";
import { hasEnded, isTracked } from "../../display/jobs.ts";
import { PlotControls } from "./plot-controls.tsx";
import { SkipMarkers } from "./skip-markers.tsx";
import type { TabProps } from "./tab-props.ts";
import { rangeFromQuery, zoomTo } from "./ranges.ts";
import { SkipDialog } from "./skip-dialog.tsx";
import { StepTimes } from "./step-times.tsx";
import { ZoomBar } from "./zoom-bar.tsx";

const POINTS = 1000;
const NO_EVALUATIONS: readonly Evaluation[] = [];

/** Whether a part of the steps is in view. */
export function isZoomed(query: URLSearchParams): boolean {
  return rangeFromQuery(query) !== null;
}

/** The API path of the steps in view. */
export function stepsPath(jobId: string, query: URLSearchParams): string {
  const range = rangeFromQuery(query);
  const parameters = queryString({ max_points: POINTS, start: range?.[0], end: range?.[1] });
  return `/jobs/${encodeURIComponent(jobId)}/steps?${parameters}`;
}

export function Plots({ job, route, intervalMs, pulse, steps, evaluations }: TabProps) {
  const range = rangeFromQuery(route.query);
  // They add curves: a plot without them would be drawn again, perhaps while the user drags across it.
  if (evaluations.inView === null && !evaluations.hasFailed) return <LoadingState what="evaluations" />;
  return (
    <LoadState what="steps" of={steps}>
      {(loaded) =>
        (loaded.data["step"]?.length ?? 0) > 0 || range !== null ? (
          <StepPlots job={job} query={route.query} intervalMs={intervalMs} pulse={pulse} steps={loaded} evaluations={evaluations.inView ?? NO_EVALUATIONS} allEvaluations={evaluations.all ?? NO_EVALUATIONS} />
        ) : (
          <NoSteps job={job} />
        )
      }
    </LoadState>
  );
}

interface Props {
  job: Job;
  query: URLSearchParams;
  intervalMs: number;
  pulse: number;
  steps: Steps;
  /** Those in view, and those of all steps. */
  evaluations: readonly Evaluation[];
  allEvaluations: readonly Evaluation[];
}

function StepPlots({ job, query, intervalMs, pulse, steps, evaluations, allEvaluations }: Props) {
  const [marker, setMarker] = useState<SkipMarker | null>(null);
  const [moving, setMoving] = useState<number | null>(null);
  const range = rangeFromQuery(query);
  const settings = useMemo(() => parseSettings(query), [query.toString()]);
  const allSteps = useAllSteps(job, range !== null && settings.x !== "step", intervalMs) ?? (steps.data as Columns);
  const kinds = useMemo(() => xKinds(allSteps, allEvaluations), [allSteps, allEvaluations]);
  const axis = useMemo(() => xMap(settings.x, allSteps, allEvaluations) ?? STEPS, [settings.x, allSteps, allEvaluations]);
  const kind = axis === STEPS ? "step" : settings.x;
  const { panels, columns } = usePanels(steps, evaluations, settings, moving ?? settings.smoothing, axis);
  const all: StepRange = [0, Math.max(1, (steps.attempts.at(-1)?.end ?? job.step) - 1)];
  const shown = range ?? all;
  const shownX: StepRange = [axis.toX(shown[0]), axis.toX(shown[1])];
  const markers = useMemo(() => skipMarkers(steps, shown), [steps, shown[0], shown[1]]);
  const skips = useMemo(() => markers.map((skipped) => axis.toX(middleOf(skipped))), [markers, axis]);
  const open = (next: StepRange | null, changes: Partial<PlotSettings> = {}) =>
    go(routeHref(["jobs", job.id], { ...(next && { from: next[0], to: next[1] }), ...settingsQuery({ ...settings, ...changes }) }), true);
  const show = (next: StepRange | null) => open(next);
  const change = (changes: Partial<PlotSettings>) => open(range, changes);
  const keys = panels.map(({ key }) => key);
  const formatX = useCallback((value: number) => xLabel(kind, value), [kind]);
  return (
    <div class="stack">
      <ZoomBar shown={shown} all={all} isZoomed={range !== null} stepsPerPoint={steps.steps_per_point} isSmoothed={(moving ?? settings.smoothing) > 0} onShow={show} />
      <PlotControls
        {...{ settings, keys, shown, all }}
        xKinds={kinds}
        columns={columns}
        onChange={change}
        onShow={show}
        onSmooth={setMoving}
      />
      <SkipMarkers markers={markers} range={shownX} toX={axis.toX} onOpen={setMarker} />
      <div class={`plots ${settings.columns ? `columns-${settings.columns}` : ""}`}>
        {panels.map(({ key, x, ...panel }) => (
          <Chart
            {...panel}
            key={key}
            x={x}
            range={shownX}
            skips={skips}
            showsLegend
            isLogarithmic={settings.logarithmic.includes(key)}
            limits={settings.limits.get(key)}
            cursorGroup={`job-${job.id}`}
            formatX={formatX}
            formatValue={panel.isLossScale ? lossScale : number}
            onZoom={([from, to]) => show(zoomTo([axis.toStep(from), axis.toStep(to)], all))}
            onReset={() => show(null)}
            exportName={job.name}
            xTitle={kind === "time" ? "training time (s)" : kind}
            menu={<SettingItems panel={{ key, ...panel }} {...{ settings, keys }} onChange={change} />}
          />
        ))}
      </div>
      {!isTracked(job) && <StepTimes {...{ job, intervalMs, pulse }} range={shown} />}
      {marker && <SkipDialog job={job} marker={marker} onShow={show} onClose={() => setMarker(null)} />}
    </div>
  );
}

/** The panels in the order of the settings, smoothed, with their points on the x axis; and every quantity that can have a panel. */
function usePanels(steps: Steps, evaluations: readonly Evaluation[], settings: PlotSettings, smoothing: number, axis: XMap) {
  const exact = useMemo(() => {
    const stepPanels = jobPanels(steps.data as Columns, settings.panels ?? []);
    return withMetrics(stepPanels, steps.data["step"] as number[], metricLines(evaluations));
  }, [steps, evaluations, settings.panels?.join("\n")]);
  const columns = useMemo(() => addableColumns(steps, exact.panels), [steps, exact]);
  const smoothed = useMemo(() => exact.panels.map((panel) => smoothPanel(panel, smoothing)), [exact, smoothing]);
  const x = useMemo(() => (axis === STEPS ? exact.x : exact.x.map(axis.toX)), [exact, axis]);
  const chosen = settings.panels?.flatMap((key) => smoothed.find((panel) => panel.key === key) ?? []);
  // An address whose panels this job does not have shows those of its data.
  return { panels: (chosen?.length ? chosen : smoothed).map((panel) => ({ ...panel, x })), columns };
}

/** Key and title of every quantity that can have a panel: those that have one, and the other columns of the steps. */
function addableColumns(steps: Steps, panels: readonly Panel[]): (readonly [string, string])[] {
  const usual = panels.map(({ key, title }) => [key, title] as const);
  return [...usual, ...plottableColumns(steps.data as Columns).filter(([key]) => !usual.some(([other]) => other === key))];
}

/** The data that map steps to another axis: those of all steps while only some are in view; null until they have loaded. */
function useAllSteps(job: Job, isNeeded: boolean, intervalMs: number): Columns | null {
  const path = `/jobs/${encodeURIComponent(job.id)}/steps?${queryString({ max_points: POINTS })}`;
  const steps = usePoll<Steps>(isNeeded ? path : null, intervalMs);
  return isNeeded && steps.data ? (steps.data.data as Columns) : null;
}

function NoSteps({ job }: { job: Job }) {
  return (
    <EmptyState title="No steps yet">
      {hasEnded(job.state)
        ? "The job ended before its first step. See the Events and Log tabs for the reason."
        : "Plots appear after the first step. This page updates automatically."}
    </EmptyState>
  );
}
