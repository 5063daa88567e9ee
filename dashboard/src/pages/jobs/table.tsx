// The table of jobs. On a narrow screen each row is a card; the ARIA roles are explicit because CSS
// that changes the display of a table removes its implicit ones.
import type { ComponentChildren } from "preact";
import { routeHref } from "../../router.ts";
import type { ListedJob } from "../../api/types.ts";
import { JobActions } from "../../components/job-actions.tsx";
import { Badge, Labels } from "../../components/badge.tsx";
import { useNow } from "../../hooks.ts";
import { Progress } from "../../components/progress.tsx";
import { age, dateTime, number, percent } from "../../display/format.ts";
import { metricTitle, metricValue } from "../../display/metrics.ts";
import { isTracked, policyText, scaleMode, skippedShare, unreadable } from "../../display/jobs.ts";

const BEFORE_METRIC = ["State", "Name", "Policy", "Loss scale", "Progress", "Loss"] as const;
const AFTER_METRIC = ["Skipped", "Examples/s", "Age"] as const;
const TEXTS = new Set<string>(["State", "Name", "Policy", "Loss scale", "Progress"]);
const NUMBERS = new Set<string>(["Loss", ...AFTER_METRIC]);

interface Props {
  jobs: readonly ListedJob[];
  /** The metric that has a column. */
  metric: string;
  selected: readonly string[];
  onChoose: (id: string, on: boolean) => void;
  onDone: () => void;
}

export function JobTable({ jobs, metric, selected, onChoose, onDone }: Props) {
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
        {jobs.map((job) => (
          <Row key={job.id} job={job} metric={metric} now={now} isChosen={selected.includes(job.id)} onChoose={onChoose} onDone={onDone} />
        ))}
      </tbody>
    </table>
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
