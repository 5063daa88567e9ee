// "Tell me when it ends": a message to one receiver at the end of a job.
import { useRef, useState } from "preact/hooks";
import { toApiError } from "../api/connection.ts";
import { sendJson } from "../api/request.ts";
import type { Job, NewSubscription } from "../api/types.ts";
import { hasEnded } from "../display/jobs.ts";
import { useOneAtATime } from "../hooks.ts";
import { notify } from "../notifications.ts";
import { useCanEditJobs } from "../session.ts";
import { WebhookSecret } from "./webhook-secret.tsx";

export function NotifyButton({ job }: { job: Job }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [target, setTarget] = useState("");
  const [created, setCreated] = useState<NewSubscription | null>(null);
  const [create, isCreating] = useOneAtATime(async () => {
    try {
      const subscription = await sendJson<NewSubscription>("POST", "/notifications", { target, job_id: job.id });
      notify("done", `A message goes to ${subscription.target} when ${job.name} ends.`);
      if (subscription.secret) setCreated(subscription);
      else dialog.current?.close();
    } catch (error) {
      notify("failed", toApiError(error).message);
    }
  });
  if (!useCanEditJobs() || hasEnded(job.state)) return null;
  const close = () => {
    setCreated(null);
    dialog.current?.close();
  };
  return (
    <>
      <button type="button" class="button" onClick={() => dialog.current?.showModal()}>Tell me when it ends</button>
      <dialog ref={dialog} aria-label={`Tell me when ${job.name} ends`} class="dialog" onClose={() => setCreated(null)}>
        {created ? <WebhookSecret of={created} onClose={close} /> : (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              create();
            }}
          >
            <h2>Tell me when {job.name} ends</h2>
            <label class="field"><span>Target (https://…, slack://…, mailto:…)</span>
              <input required maxLength={2000} value={target} onInput={(event) => setTarget(event.currentTarget.value)} />
            </label>
            <div class="row end">
              <button type="button" class="button" onClick={close}>Cancel</button>
              <button type="submit" class="button primary" disabled={isCreating}>Tell me</button>
            </div>
          </form>
        )}
      </dialog>
    </>
  );
}
