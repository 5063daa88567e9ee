// Which jobs are compared, against which of them, and along what.
import { usePoll } from "../../api/poll.ts";
import type { Comparison, JobPage } from "../../api/types.ts";
import type { Choices } from "./page.tsx";

const MOST = 10;

interface Props {
  choices: Choices;
  comparison: Comparison | null;
  onChange: (changes: Partial<Choices>) => void;
}

export function Picker({ choices, comparison, onChange }: Props) {
  const recent = usePoll<JobPage>("/jobs?limit=100", 15_000).data?.items ?? [];
  const names = new Map([...recent, ...(comparison?.jobs.map(({ job }) => job) ?? [])].map((job) => [job.id, job.name]));
  const nameOf = (id: string) => names.get(id) ?? id;
  const others = recent.filter((job) => !choices.jobs.includes(job.id));
  return (
    <div class="card row" role="group" aria-label="What is compared">
      <ul class="plain chips" aria-label="Jobs compared">
        {choices.jobs.map((id) => (
          <li key={id} class="chip">
            {nameOf(id)}
            <button type="button" class="close" aria-label={`Remove ${nameOf(id)}`} onClick={() => onChange({ jobs: choices.jobs.filter((one) => one !== id) })}>×</button>
          </li>
        ))}
      </ul>
      {choices.jobs.length < MOST && (
        <label class="field inline">
          <span>Add a job</span>
          <select value="" onChange={(event) => event.currentTarget.value && onChange({ jobs: [...choices.jobs, event.currentTarget.value] })}>
            <option value="">choose …</option>
            {others.map((job) => <option key={job.id} value={job.id}>{job.name} · {job.policy} · {job.state} · {job.id.slice(0, 6)}</option>)}
          </select>
        </label>
      )}
      <label class="field inline">
        <span>Baseline</span>
        <select value={choices.baseline} onChange={(event) => onChange({ baseline: event.currentTarget.value })}>
          {choices.jobs.map((id) => <option key={id} value={id}>{nameOf(id)}</option>)}
        </select>
      </label>
      <label class="field inline">
        <span>Along</span>
        <select value={choices.by} onChange={(event) => onChange({ by: event.currentTarget.value as Choices["by"] })}>
          <option value="step">steps</option>
          <option value="time">time</option>
        </select>
      </label>
    </div>
  );
}
