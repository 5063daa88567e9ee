// The header of a job's page: name, state, reason, actions.
import { currentPage, goFrom, routeHref } from "../../router.ts";
import { sendJson } from "../../api/request.ts";
import type { Job } from "../../api/types.ts";
import { runAndNotify } from "../../notifications.ts";
import { JobActions } from "../../components/job-actions.tsx";
import { Badge, Labels } from "../../components/badge.tsx";
import { ExtendButton } from "../../components/extend-button.tsx";
import { Menu } from "../../components/menu.tsx";
import { NotifyButton } from "../../components/notify-button.tsx";
import { StudyButton } from "../../components/study-button.tsx";
import { ConfirmButton } from "../../components/buttons.tsx";
import { useNow } from "../../hooks.ts";
import { Progress } from "../../components/progress.tsx";
import { useCanEditJobs } from "../../session.ts";
import { age, dateTime } from "../../display/format.ts";
import { hasEnded, isTracked, offersOf, policyText, unreadable, type Offer } from "../../display/jobs.ts";

export function JobHeader({ job, onDone }: { job: Job; onDone: () => void }) {
  const { first, more } = offersOf(job, useCanEditJobs());
  return (
    <header class="job-head">
      <div class="row spread">
        <div class="row">
          <h1>{job.name}</h1>
          <Badge state={job.state} />
          <Labels labels={job.labels} />
        </div>
        <div class="row">
          <JobActions job={job} onDone={onDone} isLarge />
          {first.map((offer) => <OfferButton key={offer} job={job} offer={offer} />)}
          {more.length > 0 && (
            // Keyed, so that it is closed on the page of the next job.
            <Menu key={job.id} label="More">
              <div class="offers">{more.map((offer) => <OfferButton key={offer} job={job} offer={offer} />)}</div>
            </Menu>
          )}
        </div>
      </div>
      <StateReason job={job} />
      {unreadable(job) && <p class="callout failed" role="note">{unreadable(job)}. See the server log for details.</p>}
      <div class="row muted">
        <code>{job.id}</code>
        <span>{job.model} · {policyText(job)}</span>
        <Ages job={job} />
        {isTracked(job) && <span>tracked: a program elsewhere trains it</span>}
        {job.worker_id && <a href="#/workers">on {job.worker_id}</a>}
        {job.extends && <a href={routeHref(["jobs", job.extends])}>extends {job.extends}</a>}
        {job.cloned_from && <a href={routeHref(["jobs", job.cloned_from])}>cloned from {job.cloned_from}</a>}
      </div>
      {!hasEnded(job.state) && (job.total_steps !== null || job.uploading || job.activity) && <Progress job={job} />}
    </header>
  );
}

function OfferButton({ job, offer }: { job: Job; offer: Offer }) {
  switch (offer) {
    case "notify": return <NotifyButton job={job} />;
    case "extend": return <ExtendButton job={job} />;
    case "resubmit": return <a class="button" href={routeHref(["submit"], { from: job.id })}>Edit and resubmit</a>;
    case "compare": return <a class="button" href={routeHref(["compare"], { jobs: job.id })}>Compare</a>;
    case "delete": return <Delete job={job} />;
    default: return <StudyButton job={job} kind={offer} />;
  }
}

/** Why the job is in its state, or why it is still queued. */
function StateReason({ job }: { job: Job }) {
  const words = job.waiting ?? job.message;
  if (!words && !job.reason) return null;
  return (
    <p class={`callout ${job.state}`} role="note" aria-label="Why the job is in this state">
      {words ?? "No details are available."} {job.reason && <code class="muted">{job.reason}</code>}
    </p>
  );
}

function Ages({ job }: { job: Job }) {
  const now = useNow(5000);
  return (
    <span title={dateTime(job.created_at)}>
      submitted {age(job.created_at, now)} ago{job.created_by && ` by ${job.created_by}`}
    </span>
  );
}

function Delete({ job }: { job: Job }) {
  if (!useCanEditJobs() || !hasEnded(job.state)) return null;
  const remove = async () => {
    const page = currentPage();
    const work = () => sendJson("DELETE", `/jobs/${job.id}`);
    if (await runAndNotify(`${job.name} was deleted.`, work)) goFrom(page, "#/jobs");
  };
  return (
    <ConfirmButton label="Delete" danger question={`Delete ${job.name}?`} onConfirm={() => void remove()}>
      With its steps, events, log and files. The trash has it for a time, and can restore it.
    </ConfirmButton>
  );
}
