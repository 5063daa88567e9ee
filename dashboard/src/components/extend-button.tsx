// Extends a job that has succeeded: asks for the number of further epochs, and shows the new job.
import { useRef, useState } from "preact/hooks";
import { sendJson } from "../api/request.ts";
import type { Job } from "../api/types.ts";
import { canExtend } from "../display/jobs.ts";
import { runAndNotify } from "../notifications.ts";
import { currentPage, goFrom, routeHref } from "../router.ts";
import { useCanEditJobs } from "../session.ts";

const MAX_EPOCHS = 1_000_000;

export function ExtendButton({ job }: { job: Job }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [epochs, setEpochs] = useState(String("train" in job.spec ? (job.spec.train?.epochs ?? 1) : 1));
  if (!useCanEditJobs() || !canExtend(job)) return null;
  const extend = async () => {
    const page = currentPage();
    dialog.current?.close();
    const sent: { job: Job | null } = { job: null };
    const work = async () => {
      sent.job = await sendJson<Job>("POST", `/jobs/${job.id}/extend`, { epochs: Number(epochs) });
    };
    await runAndNotify(`${job.name} is extended by ${epochs} epochs.`, work);
    if (sent.job) goFrom(page, routeHref(["jobs", sent.job.id]));
  };
  return (
    <>
      <button type="button" class="button" onClick={() => dialog.current?.showModal()}>Extend</button>
      <dialog ref={dialog} aria-label={`Extend ${job.name}`} class="dialog">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void extend();
          }}
        >
          <h2>Extend {job.name}</h2>
          <p>A new job continues from the last checkpoint of this one.</p>
          <label class="field">
            <span>Further epochs</span>
            <input type="number" required min={1} max={MAX_EPOCHS} step={1} value={epochs} onInput={(event) => setEpochs(event.currentTarget.value)} />
          </label>
          <div class="row end">
            <button type="button" class="button" onClick={() => dialog.current?.close()}>Cancel</button>
            <button type="submit" class="button primary">Extend</button>
          </div>
        </form>
      </dialog>
    </>
  );
}
