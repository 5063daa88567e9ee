// The plots of a job's steps. Only the steps in view are requested, downsampled to a thousand
// points, so that a long run costs no more than a short one.
import { useMemo, useState } from "preact/hooks";
import { routeHref, go, queryString } from "../../router.ts";
import type { Evaluation, Job, Steps } from "../../api/types.ts";
import { EmptyState, LoadingState, LoadState } from "../../components/load-state.tsx";
import { Chart } from "../../plots/chart.tsx";
import type { SkipMarker, StepRange } from "../../plots/skip-markers.ts";
import { jobPanels, type Columns } from "../../plots/curves.ts";
import { metricLines, withMetrics } from "../../plots/evaluations.ts";
import { number, lossScale, stepLabel } from "../../display/format.ts";
import { hasEnded } from "../../display/jobs.ts";
import { SkipMarkers } from "./skip-markers.tsx";
import type { TabProps } from "./tab-props.ts";
import { rangeFromQuery, zoomTo } from "./ranges.ts";
import { SkipDialog } from "./skip-dialog.tsx";
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

/** The API path of the evaluations in view. */
export function evaluationsPath(jobId: string, query: URLSearchParams): string {
  const range = rangeFromQuery(query);
  const view = range && { after: range[0] - 1, end: range[1] + 1 };
  return `/jobs/${encodeURIComponent(jobId)}/evaluations?${queryString({ max_points: POINTS, ...view })}`;
}

export function Plots({ job, route, steps, evaluations }: TabProps) {
  const range = rangeFromQuery(route.query);
  // They add curves: a plot without them would be drawn again, perhaps while the user drags across it.
  if (evaluations.data === null && !evaluations.error) return <LoadingState what="evaluations" />;
  return (
    <LoadState what="steps" of={steps}>
      {(loaded) =>
        (loaded.data["step"]?.length ?? 0) > 0 || range !== null ? (
          <StepPlots job={job} steps={loaded} evaluations={evaluations.data?.items ?? NO_EVALUATIONS} range={range} />
        ) : (
          <NoSteps job={job} />
        )
      }
    </LoadState>
  );
}

interface Props {
  job: Job;
  steps: Steps;
  evaluations: readonly Evaluation[];
  range: StepRange | null;
}

function StepPlots({ job, steps, evaluations, range }: Props) {
  const [marker, setMarker] = useState<SkipMarker | null>(null);
  const { x, panels } = useMemo(
    () => withMetrics(jobPanels(steps.data as Columns), steps.data["step"] as number[], metricLines(evaluations)),
    [steps, evaluations],
  );
  const all: StepRange = [0, Math.max(1, (steps.attempts.at(-1)?.end ?? job.step) - 1)];
  const shown = range ?? all;
  const show = (next: StepRange | null) =>
    go(routeHref(["jobs", job.id], next ? { from: next[0], to: next[1] } : {}), true);
  return (
    <div class="stack">
      <ZoomBar shown={shown} all={all} isZoomed={range !== null} stepsPerPoint={steps.steps_per_point} onShow={show} />
      <div class="plots">
        <SkipMarkers steps={steps} range={shown} onOpen={setMarker} />
        {panels.map(({ key, ...panel }, index) => (
          <Chart
            {...panel}
            key={key}
            x={x}
            range={shown}
            showsLegend
            showsXAxis={index === panels.length - 1}
            cursorGroup={`job-${job.id}`}
            formatX={stepLabel}
            formatValue={panel.isLossScale ? lossScale : number}
            onZoom={(selected) => show(zoomTo(selected, all))}
            onReset={() => show(null)}
          />
        ))}
      </div>
      {marker && <SkipDialog job={job} marker={marker} onShow={show} onClose={() => setMarker(null)} />}
    </div>
  );
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
