// The settings of a comparison: jobs, baseline, x axis.
import { usePoll } from "../../api/use-poll.ts";
import type { Comparison, JobPage } from "../../api/types.ts";
import { policyText } from "../../display/jobs.ts";
import { MAX_COMPARED, MAX_SIDE_BY_SIDE, type CompareQuery } from "./query.ts";

interface Props {
  selection: CompareQuery;
  comparison: Comparison | null;
  onChange: (changes: Partial<CompareQuery>) => void;
}

export function Picker({ selection, comparison, onChange }: Props) {
  const recent = usePoll<JobPage>("/jobs?limit=100", 15_000).data?.items ?? [];
  const names = new Map([...recent, ...(comparison?.jobs.map(({ job }) => job) ?? [])].map((job) => [job.id, job.name]));
  const nameOf = (id: string) => names.get(id) ?? id;
  const others = recent.filter((job) => !selection.jobs.includes(job.id));
  return (
    <div class="card row" role="group" aria-label="Comparison settings">
      {selection.jobs.length > MAX_SIDE_BY_SIDE ? (
        <details class="all-jobs"><summary>{selection.jobs.length} jobs</summary><Chips selection={selection} nameOf={nameOf} onChange={onChange} /></details>
      ) : (
        <Chips selection={selection} nameOf={nameOf} onChange={onChange} />
      )}
      {selection.jobs.length < MAX_COMPARED && (
        <label class="field inline">
          <span>Add a job</span>
          <select value="" onChange={(event) => event.currentTarget.value && onChange({ jobs: [...selection.jobs, event.currentTarget.value] })}>
            <option value="">Select…</option>
            {others.map((job) => <option key={job.id} value={job.id}>{job.name} · {policyText(job)} · {job.state} · {job.id.slice(0, 6)}</option>)}
          </select>
        </label>
      )}
      <label class="field inline">
        <span>Baseline</span>
        <select value={selection.baseline} onChange={(event) => onChange({ baseline: event.currentTarget.value })}>
          {selection.jobs.map((id) => <option key={id} value={id}>{nameOf(id)}</option>)}
        </select>
      </label>
      <label class="field inline">
        <span>X axis</span>
        <select value={selection.by} onChange={(event) => onChange({ by: event.currentTarget.value as CompareQuery["by"] })}>
          <option value="step">Steps</option>
          <option value="time">Time</option>
        </select>
      </label>
    </div>
  );
}

function Chips({ selection, nameOf, onChange }: { selection: CompareQuery; nameOf: (id: string) => string; onChange: Props["onChange"] }) {
  return (
    <ul class="plain chips" aria-label="Jobs compared">
      {selection.jobs.map((id) => (
        <li key={id} class="chip">
          {nameOf(id)}
          <button type="button" class="close" aria-label={`Remove ${nameOf(id)}`} onClick={() => onChange({ jobs: selection.jobs.filter((other) => other !== id) })}>×</button>
        </li>
      ))}
    </ul>
  );
}
