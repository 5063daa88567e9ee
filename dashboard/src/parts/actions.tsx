// Cancel, pause, resume and retry, as a job's state allows.
import { send } from "../api/request.ts";
import type { ListedJob } from "../api/types.ts";
import { attempt } from "../notices.ts";
import { useMaySteer } from "../session.ts";
import { actionsOf, type Action } from "../words/jobs.ts";

const WORDS: Record<Action, readonly [label: string, done: string]> = {
  cancel: ["Cancel", "is being cancelled"],
  pause: ["Pause", "is being paused"],
  resume: ["Resume", "is back in the queue"],
  retry: ["Retry", "is back in the queue"],
};

export function Actions({ job, onDone, isLarge = false }: { job: ListedJob; onDone: () => void; isLarge?: boolean }) {
  if (!useMaySteer()) return null;
  const ask = async (action: Action) => {
    const work = () => send("POST", `/jobs/${job.id}/${action}`);
    await attempt(`${job.name} ${WORDS[action][1]}.`, work);
    onDone();
  };
  return (
    <>
      {actionsOf(job.state).map((action) => (
        <button
          key={action}
          type="button"
          class={`button ${isLarge ? "" : "small"}`}
          aria-label={`${WORDS[action][0]} ${job.name}`}
          onClick={() => void ask(action)}
        >
          {WORDS[action][0]}
        </button>
      ))}
    </>
  );
}
