// What a column shows of a job: one line, which is cut where the column ends.
import type { ComponentChildren } from "preact";
import type { ListedJob } from "../../api/types.ts";
import { Badge } from "../../components/badge.tsx";
import { Progress } from "../../components/progress.tsx";
import { age, dateTime, duration, integer, MISSING, number, percent } from "../../display/format.ts";
import { isTracked, policyText, scaleMode, skippedShare, unreadable } from "../../display/jobs.ts";
import { metricValue } from "../../display/metrics.ts";
import { routeHref } from "../../router.ts";
import type { Column } from "./columns.ts";

/** A study sets these on its jobs: its id, and what the job is in the study. */
const STUDY_LABEL = "study";
const KEY_LABEL = "study_job";

type Content = (job: ListedJob, now: number, isOfStudy: boolean) => ComponentChildren;

const CONTENT: Readonly<Record<string, Content>> = {
  name: (job, _, isOfStudy) => <Name job={job} isOfStudy={isOfStudy} />,
  state: (job) => <Badge state={job.state} />,
  progress: (job) => <Progress job={job} />,
  loss: (job) => number(job.latest?.loss),
  examples_per_s: (job) => number(job.summary?.median_examples_per_s ?? job.latest?.examples_per_s, 3),
  policy: policyText,
  labels: (job, _, isOfStudy) => <FewLabels labels={isOfStudy ? ownLabels(job.labels) : job.labels} />,
  age: (job, now) => age(job.created_at, now),
  updated: (job, now) => age(job.updated_at, now),
  duration: (job, now) => duration(durationS(job, now)),
  step: (job) => integer(job.step),
  skipped: (job) => percent(skippedShare(job)),
  loss_scale: scaleMode,
  model: (job) => job.model,
  priority: (job) => integer(job.priority),
  queue: (job) => job.queue,
  attempt: (job) => integer(job.attempt),
  worker: (job) => job.worker_id ?? MISSING,
  created_by: (job) => job.created_by ?? MISSING,
  project: (job) => job.project,
  id: (job) => <code>{job.id}</code>,
};

/** What is read of a cell that is cut, or where a time is only an age. */
const TITLES: Readonly<Record<string, (job: ListedJob) => string>> = {
  name: (job) => job.name,
  policy: policyText,
  labels: (job) => labelTexts(job.labels).join("\n"),
  age: (job) => dateTime(job.created_at),
  updated: (job) => dateTime(job.updated_at),
  model: (job) => job.model,
  queue: (job) => job.queue,
  worker: (job) => job.worker_id ?? "",
  created_by: (job) => job.created_by ?? "",
  project: (job) => job.project,
};

/** `isOfStudy`: in a row below that of its study, which need not be repeated. */
export function Cell({ column, job, now, isOfStudy }: { column: Column; job: ListedJob; now: number; isOfStudy: boolean }) {
  const content = CONTENT[column.id];
  return (
    <td data-name={column.title} class={column.isNumber ? "number" : undefined} title={TITLES[column.id]?.(job)}>
      {content ? content(job, now, isOfStudy) : metricValue(column.id, job.metrics?.[column.id])}
    </td>
  );
}

function Name({ job, isOfStudy }: { job: ListedJob; isOfStudy: boolean }) {
  // All jobs of a study have long names that begin alike.
  const name = isOfStudy ? (job.labels[KEY_LABEL] ?? job.name) : job.name;
  return (
    <span class="name-cell">
      <a class="name" href={routeHref(["jobs", job.id])}>{name}</a>
      {isTracked(job) && <span class="label" title="Trained elsewhere">tracked</span>}
      {job.explains && <a class="label" title="Explains a step of this job" href={routeHref(["jobs", job.explains])}>explains step {job.explain_step}</a>}
      {unreadable(job) && <span class="badge failed">{unreadable(job)}</span>}
    </span>
  );
}

function FewLabels({ labels }: { labels: ListedJob["labels"] }) {
  const texts = labelTexts(labels);
  return (
    <span class="few-labels">
      {texts.slice(0, 1).map((text) => <a key={text} class="label" href={routeHref(["jobs"], { label: text })}>{text}</a>)}
      {texts.length > 1 && <span class="muted">+{texts.length - 1}</span>}
    </span>
  );
}

/** The labels without those that a study sets. */
function ownLabels({ [STUDY_LABEL]: _study, [KEY_LABEL]: _key, ...labels }: ListedJob["labels"]): ListedJob["labels"] {
  return labels;
}

function labelTexts(labels: ListedJob["labels"]): string[] {
  return Object.entries(labels).map(([key, value]) => (value === "" ? key : `${key}=${value}`));
}

/** Seconds from the start of the first attempt to the end, or until now; null before the start. */
function durationS(job: ListedJob, now: number): number | null {
  if (!job.started_at) return null;
  const end = job.finished_at ? Date.parse(job.finished_at) : now;
  return Math.max(0, (end - Date.parse(job.started_at)) / 1000);
}
