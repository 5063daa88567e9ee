// The jobs of one page of the list; on a narrow screen each row becomes a card. The roles are
// written out, since a table that is laid out as cards would lose them.
import type { ComponentChildren } from "preact";
import { fragmentOf } from "../../address.ts";
import type { ListedJob } from "../../api/types.ts";
import { Actions } from "../../parts/actions.tsx";
import { Badge, Labels } from "../../parts/badge.tsx";
import { useNow } from "../../parts/now.ts";
import { Progress } from "../../parts/progress.tsx";
import { age, moment, number, percent } from "../../words/format.ts";
import { scaleMode, skippedShare, unreadable } from "../../words/jobs.ts";

const HEADINGS = [
  "State", "Name", "Policy", "Scale", "Progress", "Loss", "Skipped", "Examples/s", "Age",
] as const;
const NUMERIC = new Set<string>(["Loss", "Skipped", "Examples/s", "Age"]);

interface Props {
  jobs: readonly ListedJob[];
  chosen: readonly string[];
  onChoose: (id: string, on: boolean) => void;
  onDone: () => void;
}

export function JobTable({ jobs, chosen, onChoose, onDone }: Props) {
  const now = useNow(5000);
  return (
    <table class="table cards" role="table" aria-label="Jobs">
      <thead role="rowgroup">
        <tr role="row">
          <th role="columnheader" scope="col"><span class="hidden">Choose</span></th>
          {HEADINGS.map((heading) => (
            <th key={heading} role="columnheader" scope="col" class={NUMERIC.has(heading) ? "number" : ""}>{heading}</th>
          ))}
          <th role="columnheader" scope="col"><span class="hidden">Actions</span></th>
        </tr>
      </thead>
      <tbody role="rowgroup">
        {jobs.map((job) => (
          <Row key={job.id} job={job} now={now} isChosen={chosen.includes(job.id)} onChoose={onChoose} onDone={onDone} />
        ))}
      </tbody>
    </table>
  );
}

function Row(props: { job: ListedJob; now: number; isChosen: boolean } & Pick<Props, "onChoose" | "onDone">) {
  const { job, now } = props;
  return (
    <tr role="row">
      <td role="cell" class="choose">
        <input
          type="checkbox"
          aria-label={`Choose ${job.name} to compare`}
          checked={props.isChosen}
          onChange={(event) => props.onChoose(job.id, event.currentTarget.checked)}
        />
      </td>
      <Cell name="State"><Badge state={job.state} /></Cell>
      <Cell name="Name">
        <a class="name" href={fragmentOf(["jobs", job.id])}>{job.name}</a> <Labels labels={job.labels} />
        {unreadable(job) && <span class="badge failed">{unreadable(job)}</span>}
      </Cell>
      <Cell name="Policy">{job.policy}</Cell>
      <Cell name="Scale">{scaleMode(job)}</Cell>
      <Cell name="Progress"><Progress job={job} /></Cell>
      <Cell name="Loss">{number(job.latest?.loss)}</Cell>
      <Cell name="Skipped">{percent(skippedShare(job))}</Cell>
      <Cell name="Examples/s">{number(job.latest?.examples_per_s, 3)}</Cell>
      <Cell name="Age" title={moment(job.created_at)}>{age(job.created_at, now)}</Cell>
      <td role="cell" class="actions"><Actions job={job} onDone={props.onDone} /></td>
    </tr>
  );
}

function Cell({ name, title, children }: { name: string; title?: string; children: ComponentChildren }) {
  return (
    <td role="cell" data-name={name} class={NUMERIC.has(name) ? "number" : ""} title={title}>
      {children}
    </td>
  );
}
