// Buttons to cancel, pause, resume and retry a job, as its state allows.
import { sendJson } from "../api/request.ts";
import type { ListedJob } from "../api/types.ts";
import { runAndNotify } from "../notifications.ts";
import { useCanEditJobs } from "../session.ts";
import { actionsOf, type Action } from "../display/jobs.ts";

const ACTION_LABELS: Record<Action, readonly [label: string, done: string]> = {
  cancel: ["Cancel", "is being cancelled"],
  pause: ["Pause", "is being paused"],
  resume: ["Resume", "is back in the queue"],
  retry: ["Retry", "is back in the queue"],
};

export function JobActions({ job, onDone, isLarge = false }: { job: ListedJob; onDone: () => void; isLarge?: boolean }) {
  if (!useCanEditJobs()) return null;
  const ask = async (action: Action) => {
    const work = () => sendJson("POST", `/jobs/${job.id}/${action}`);
    await runAndNotify(`${job.name} ${ACTION_LABELS[action][1]}.`, work);
    onDone();
  };
  return (
    <>
      {actionsOf(job).map((action) => (
        <button
          key={action}
          type="button"
          class={`button ${isLarge ? "" : "small"}`}
          aria-label={`${ACTION_LABELS[action][0]} ${job.name}`}
          onClick={() => void ask(action)}
        >
          {ACTION_LABELS[action][0]}
        </button>
      ))}
    </>
  );
}
