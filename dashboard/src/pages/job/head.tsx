// What a job is, how it stands, why, and what may be done about it.
import { fragmentOf, go } from "../../address.ts";
import { send } from "../../api/request.ts";
import type { Job } from "../../api/types.ts";
import { attempt } from "../../notices.ts";
import { Actions } from "../../parts/actions.tsx";
import { Badge, Labels } from "../../parts/badge.tsx";
import { Confirm } from "../../parts/confirm.tsx";
import { useNow } from "../../parts/now.ts";
import { Progress } from "../../parts/progress.tsx";
import { useMaySteer } from "../../session.ts";
import { age, moment } from "../../words/format.ts";
import { hasEnded, unreadable } from "../../words/jobs.ts";

export function JobHead({ job, onDone }: { job: Job; onDone: () => void }) {
  return (
    <header class="job-head">
      <div class="row spread">
        <div class="row">
          <h1>{job.name}</h1>
          <Badge state={job.state} />
          <Labels labels={job.labels} />
        </div>
        <div class="row">
          <Actions job={job} onDone={onDone} isLarge />
          {useMaySteer() && <a class="button" href={fragmentOf(["submit"], { from: job.id })}>Run again with changes</a>}
          <a class="button" href={fragmentOf(["compare"], { jobs: job.id })}>Compare</a>
          <Delete job={job} />
        </div>
      </div>
      <Why job={job} />
      {unreadable(job) && <p class="callout failed" role="note">{unreadable(job)}. The server's log tells more.</p>}
      <div class="row muted">
        <code>{job.id}</code>
        <span>{job.model} · {job.policy}</span>
        <Ages job={job} />
        {job.worker_id && <a href="#/workers">on {job.worker_id}</a>}
        {job.cloned_from && <a href={fragmentOf(["jobs", job.cloned_from])}>clone of {job.cloned_from}</a>}
      </div>
      {!hasEnded(job.state) && job.total_steps !== null && <Progress job={job} />}
    </header>
  );
}

/** The sentence that helps: why it is in its state, or why it waits. */
function Why({ job }: { job: Job }) {
  const words = job.waiting ?? job.message;
  if (!words && !job.reason) return null;
  return (
    <p class={`callout ${job.state}`} role="note" aria-label="Why the job is in this state">
      {words ?? "No more is known."} {job.reason && <code class="muted">{job.reason}</code>}
    </p>
  );
}

function Ages({ job }: { job: Job }) {
  const now = useNow(5000);
  return (
    <span title={moment(job.created_at)}>
      posted {age(job.created_at, now)} ago{job.created_by && ` by ${job.created_by}`}
    </span>
  );
}

function Delete({ job }: { job: Job }) {
  if (!useMaySteer() || !hasEnded(job.state)) return null;
  const remove = async () => {
    const work = () => send("DELETE", `/jobs/${job.id}`);
    if (await attempt(`${job.name} is deleted.`, work)) go("#/jobs");
  };
  return (
    <Confirm label="Delete" danger question={`Delete ${job.name}?`} onYes={() => void remove()}>
      Its steps, ledger, log and files go with it. There is no way back.
    </Confirm>
  );
}
