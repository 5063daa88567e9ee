// The plots of a job's steps, linked to each other. Only what is in view is asked for, in a
// thousand points, again when something was told; so a long run costs no more than a short one.
import { useMemo, useState } from "preact/hooks";
import { fragmentOf, go, queryOf } from "../../address.ts";
import type { Job, Steps } from "../../api/types.ts";
import { Empty, Standing } from "../../parts/standing.tsx";
import { Chart } from "../../plots/chart.tsx";
import type { Mark, Range } from "../../plots/marks.ts";
import { panelsOf, type Columns } from "../../plots/series.ts";
import { number, scale, stepWords } from "../../words/format.ts";
import { hasEnded } from "../../words/jobs.ts";
import { Marks } from "./marks.tsx";
import type { TabProps } from "./page.tsx";
import { rangeOf, zoomedTo } from "./ranges.ts";
import { SkipDialog } from "./skip-dialog.tsx";
import { ZoomBar } from "./zoom-bar.tsx";

const POINTS = 1000;

/** What the API is asked for: the steps in view. */
export function stepsOf(jobId: string, query: URLSearchParams): string {
  const range = rangeOf(query);
  const asked = queryOf({ max_points: POINTS, start: range?.[0], end: range?.[1] });
  return `/jobs/${encodeURIComponent(jobId)}/steps?${asked}`;
}

export function Plots({ job, place, steps }: TabProps) {
  const range = rangeOf(place.query);
  return (
    <Standing what="steps" of={steps}>
      {(told) =>
        (told.data["step"]?.length ?? 0) > 0 || range !== null ? (
          <Drawn job={job} told={told} range={range} />
        ) : (
          <NoSteps job={job} />
        )
      }
    </Standing>
  );
}

function Drawn({ job, told, range }: { job: Job; told: Steps; range: Range | null }) {
  const [mark, setMark] = useState<Mark | null>(null);
  const panels = useMemo(() => panelsOf(told.data as Columns), [told]);
  const x = told.data["step"] as number[];
  const all: Range = [0, Math.max(1, (told.attempts.at(-1)?.end ?? job.step) - 1)];
  const shown = range ?? all;
  const show = (next: Range | null) =>
    go(fragmentOf(["jobs", job.id], next ? { from: next[0], to: next[1] } : {}), true);
  return (
    <div class="stack">
      <ZoomBar shown={shown} all={all} isZoomed={range !== null} stepsPerPoint={told.steps_per_point} onShow={show} />
      <div class="plots">
        <Marks steps={told} range={shown} onOpen={setMark} />
        {panels.map(({ key, ...panel }, index) => (
          <Chart
            {...panel}
            key={key}
            x={x}
            range={shown}
            hasAxis={index === panels.length - 1}
            group={`job-${job.id}`}
            xWords={stepWords}
            words={panel.isLog2 ? scale : number}
            onZoom={(selected) => show(zoomedTo(selected, all))}
            onReset={() => show(null)}
          />
        ))}
      </div>
      {mark && <SkipDialog job={job} mark={mark} onShow={show} onClose={() => setMark(null)} />}
    </div>
  );
}

function NoSteps({ job }: { job: Job }) {
  return (
    <Empty title="No steps yet">
      {hasEnded(job.state)
        ? "The job ended before its first step; the ledger and the log tell why."
        : "The plots begin with the first step; this page shows it by itself."}
    </Empty>
  );
}
