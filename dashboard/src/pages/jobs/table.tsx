// The table of jobs. On a narrow screen each row is a card; the ARIA roles are explicit because CSS
// that changes the display of a table removes its implicit ones.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { routeHref } from "../../router.ts";
import type { FoldedStudy, JobPage, ListedJob } from "../../api/types.ts";
import { usePoll } from "../../api/use-poll.ts";
import { JobActions } from "../../components/job-actions.tsx";
import { Badge, Labels } from "../../components/badge.tsx";
import { useNow } from "../../hooks.ts";
import { Progress } from "../../components/progress.tsx";
import { age, dateTime, integer, number, percent } from "../../display/format.ts";
import { metricTitle, metricValue } from "../../display/metrics.ts";
import { filtersHref, studyJobsPath, type Filters } from "./filters.ts";
import { isTracked, policyText, scaleMode, skippedShare, unreadable } from "../../display/jobs.ts";

const STUDY_POLL_MS = 4000;
const BEFORE_METRIC = ["State", "Name", "Policy", "Loss scale", "Progress", "Loss"] as const;
const AFTER_METRIC = ["Skipped", "Examples/s", "Age"] as const;
/** The columns from the name to the throughput, which a row of a study leaves empty. */
const NAME_TO_RATE = BEFORE_METRIC.length - 1 + 1 + AFTER_METRIC.length - 1;
const TEXTS = new Set<string>(["State", "Name", "Policy", "Loss scale", "Progress"]);
const NUMBERS = new Set<string>(["Loss", ...AFTER_METRIC]);

interface Props {
  jobs: readonly ListedJob[];
  filters: Filters;
  /** The metric that has a column. */
  metric: string;
  selected: readonly string[];
  onChoose: (id: string, on: boolean) => void;
  onDone: () => void;
}

export function JobTable({ jobs, filters, metric, selected, onChoose, onDone }: Props) {
  const now = useNow(5000);
  return (
    <table class="table cards" role="table" aria-label="Jobs">
      <thead role="rowgroup">
        <tr role="row">
          <th role="columnheader" scope="col"><span class="hidden">Select</span></th>
          {[...BEFORE_METRIC, metricTitle(metric), ...AFTER_METRIC].map((heading) => (
            <th key={heading} role="columnheader" scope="col" class={columnClass(heading)}>{heading}</th>
          ))}
          <th role="columnheader" scope="col"><span class="hidden">Actions</span></th>
        </tr>
      </thead>
      <tbody role="rowgroup">
        {jobs.map((job) =>
          job.study
            ? <StudyRows key={`study ${job.study.id}`} {...{ job, study: job.study, filters, metric, now, selected, onChoose, onDone }} />
            : <Row key={job.id} job={job} metric={metric} now={now} isChosen={selected.includes(job.id)} onChoose={onChoose} onDone={onDone} />,
        )}
      </tbody>
    </table>
  );
}

type StudyProps = { job: ListedJob; study: FoldedStudy; now: number } & Omit<Props, "jobs">;

/** One row for the jobs of a study, and these once it is opened. */
function StudyRows(props: StudyProps) {
  const { job, study, now } = props;
  const [isOpen, open] = useState(false);
  return (
    <>
      <tr role="row" class="group">
        <td role="cell" class="choose" />
        <Cell name="State">
          {Object.entries(study.states).map(([state, count]) => <span key={state} class="study-state"><Badge state={state} /> {integer(count)}</span>)}
        </Cell>
        <td role="cell" data-name="Name" colSpan={NAME_TO_RATE}>
          <a class="name" href={routeHref(["studies", study.id])}>{study.name}</a>{" "}
          <span class="label" title={`The study is ${study.state}`}>{study.kind} study</span>{" "}
          <button type="button" class="button small" aria-expanded={isOpen} onClick={() => open(!isOpen)}>
            {study.jobs === 1 ? "1 job" : `${integer(study.jobs)} jobs`}
          </button>
        </td>
        <Cell name="Age" title={dateTime(job.created_at)}>{age(job.created_at, now)}</Cell>
        <td role="cell" class="actions" />
      </tr>
      {isOpen && <StudyJobs {...props} />}
    </>
  );
}

function StudyJobs({ study, filters, selected, ...rest }: StudyProps) {
  const jobs = usePoll<JobPage>(studyJobsPath(filters, study.id), STUDY_POLL_MS).data;
  return (
    <>
      {(jobs?.items ?? []).map((job) => <Row key={job.id} {...rest} job={job} isChosen={selected.includes(job.id)} />)}
      {jobs?.next_cursor && (
        <tr role="row">
          <td role="cell" colSpan={NAME_TO_RATE + 4}>
            <a href={filtersHref(filters, { study: study.id })}>All {integer(study.jobs)} jobs of this study</a>
          </td>
        </tr>
      )}
    </>
  );
}

function Row(props: { job: ListedJob; now: number; isChosen: boolean } & Pick<Props, "metric" | "onChoose" | "onDone">) {
  const { job, metric, now } = props;
  return (
    <tr role="row">
      <td role="cell" class="choose">
        <input
          type="checkbox"
          aria-label={`Select ${job.name} for comparison`}
          checked={props.isChosen}
          onChange={(event) => props.onChoose(job.id, event.currentTarget.checked)}
        />
      </td>
      <Cell name="State"><Badge state={job.state} /></Cell>
      <Cell name="Name">
        <a class="name" href={routeHref(["jobs", job.id])}>{job.name}</a> <Labels labels={job.labels} />
        {isTracked(job) && <span class="label" title="Trained elsewhere">tracked</span>}
        {job.explains && <a class="label" title="Explains a step of this job" href={routeHref(["jobs", job.explains])}>explains step {job.explain_step}</a>}
        {unreadable(job) && <span class="badge failed">{unreadable(job)}</span>}
      </Cell>
      <Cell name="Policy">{policyText(job)}</Cell>
      <Cell name="Loss scale">{scaleMode(job)}</Cell>
      <Cell name="Progress"><Progress job={job} /></Cell>
      <Cell name="Loss">{number(job.latest?.loss)}</Cell>
      <Cell name={metricTitle(metric)}>{metricValue(metric, job.metrics?.[metric])}</Cell>
      <Cell name="Skipped">{percent(skippedShare(job))}</Cell>
      <Cell name="Examples/s">{number(job.latest?.examples_per_s, 3)}</Cell>
      <Cell name="Age" title={dateTime(job.created_at)}>{age(job.created_at, now)}</Cell>
      <td role="cell" class="actions"><JobActions job={job} onDone={props.onDone} /></td>
    </tr>
  );
}

function Cell({ name, title, children }: { name: string; title?: string; children: ComponentChildren }) {
  return (
    <td role="cell" data-name={name} class={columnClass(name)} title={title}>
      {children}
    </td>
  );
}

/** The column of the metric is the only one with another name than these. */
function columnClass(name: string): string {
  if (TEXTS.has(name)) return "";
  return NUMBERS.has(name) ? "number" : "number metric";
}
