// The progress bar of a job with the time left.
import type { ListedJob } from "../api/types.ts";
import { compact, duration, MISSING, percent } from "../display/format.ts";
import { etaS } from "../display/jobs.ts";

export function Progress({ job }: { job: ListedJob }) {
  if (job.total_steps === null || job.progress === null) return <span class="muted">{job.step > 0 ? `${compact(job.step)} steps` : MISSING}</span>;
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
