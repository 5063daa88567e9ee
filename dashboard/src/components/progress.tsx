// The progress bar of a job with the time left, or of the files that its worker still stores.
import type { ListedJob } from "../api/types.ts";
import { bytes, compact, duration, MISSING, percent } from "../display/format.ts";
import { activityText, etaS } from "../display/jobs.ts";

export function Progress({ job }: { job: ListedJob }) {
  if (job.uploading) return <UploadProgress job={job} uploading={job.uploading} />;
  const doing = activityText(job);
  if (doing && (job.total_steps === null || job.progress === null)) return <span class="muted" role="status">{doing}</span>;
  if (job.total_steps === null || job.progress === null) return <span class="muted">{job.step > 0 ? `${compact(job.step)} steps` : MISSING}</span>;
  const eta = etaS(job);
  return (
    <span class="progress">
      <progress max={1} value={job.progress} aria-label={`Progress of ${job.name}`} />
      <span class="progress-words">
        {percent(job.progress)}
        {doing && <span class="muted" role="status"> · {doing}</span>}
        {eta !== null && <span class="muted"> · {duration(eta)} left</span>}
      </span>
    </span>
  );
}

function UploadProgress({ job, uploading }: { job: ListedJob; uploading: NonNullable<ListedJob["uploading"]> }) {
  const { files, sent_bytes: sent, size_bytes: size } = uploading;
  return (
    <span class="progress" role="status">
      <progress max={Math.max(size, 1)} value={sent} aria-label={`Upload of the files of ${job.name}`} />
      <span class="progress-words">
        uploading {bytes(sent)} of {bytes(size)}
        <span class="muted"> · {files} {files === 1 ? "file" : "files"} left</span>
      </span>
    </span>
  );
}
