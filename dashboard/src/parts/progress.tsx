// How far a job is, and when it will be done.
import type { ListedJob } from "../api/types.ts";
import { compact, duration, NOTHING, percent } from "../words/format.ts";
import { etaS } from "../words/jobs.ts";

export function Progress({ job }: { job: ListedJob }) {
  if (job.total_steps === null || job.progress === null) return <span class="muted">{job.step > 0 ? `${compact(job.step)} steps` : NOTHING}</span>;
  const eta = etaS(job);
  return (
    <span class="progress">
      <progress max={1} value={job.progress} aria-label={`Progress of ${job.name}`} />
      <span class="progress-words">
        {percent(job.progress)}
        {eta !== null && <span class="muted"> · {duration(eta)} left</span>}
      </span>
    </span>
  );
}
