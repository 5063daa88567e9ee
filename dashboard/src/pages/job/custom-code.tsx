// What a job needs besides this project, in words; nothing for most jobs.
import { usePoll } from "../../api/use-poll.ts";
import type { Job, Worker } from "../../api/types.ts";
import { packageOf, runsCustomCode, sandboxText } from "../../display/custom-code.ts";

const INTERVAL_MS = 600_000; // a worker reports its sandbox once

export function CustomCode({ job }: { job: Job }) {
  const needed = packageOf(job);
  if (needed) {
    return (
      <section class="callout" aria-label="Package">
        Uses the {needed.parts.join(", ")} of the package <code>{needed.name}</code>, which the operator installs.
        It runs only on workers that have it: those of the queue <code>{job.queue}</code>.
      </section>
    );
  }
  return runsCustomCode(job) ? <Sandbox job={job} /> : null;
}

function Sandbox({ job }: { job: Job }) {
  const worker = usePoll<Worker>(job.worker_id && `/workers/${encodeURIComponent(job.worker_id)}`, INTERVAL_MS);
  const sandbox = sandboxText(worker.data?.hardware);
  return (
    <section class="callout" aria-label="Sandbox">
      Runs code of its user in a sandbox: without network, with access to nothing but its data and its own folder.
      {sandbox ? ` On this worker: ${sandbox}.` : " Only workers with a sandbox take it."} Its files are in the tab Files.
    </section>
  );
}
