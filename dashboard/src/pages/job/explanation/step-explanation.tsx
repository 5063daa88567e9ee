// The explanation of a step: the button that asks for it with its cost, its progress, its answer.
import { useEffect, useState } from "preact/hooks";
import { getJson, sendJson } from "../../../api/request.ts";
import type { Explanation, ExplanationCost, ExplanationList, Job } from "../../../api/types.ts";
import { usePoll } from "../../../api/use-poll.ts";
import { Badge } from "../../../components/badge.tsx";
import { LoadState } from "../../../components/load-state.tsx";
import type { Answer } from "../../../display/explanations.ts";
import { duration, integer } from "../../../display/format.ts";
import { useOneAtATime } from "../../../hooks.ts";
import { runAndNotify } from "../../../notifications.ts";
import { queryString, routeHref } from "../../../router.ts";
import { useCanEditJobs } from "../../../session.ts";
import { ExplanationAnswer } from "./answer.tsx";

const POLL_MS = 1_000;
const SLOW_POLL_MS = 60_000;

export function StepExplanation({ job, step, onOpen }: { job: Job; step: number; onOpen?: () => void }) {
  const [cost, setCost] = useState<ExplanationCost | null>(null);
  const canExplain = useCanEditJobs();
  const [isOpen, setOpen] = useState(false);
  const path = isOpen ? `/jobs/${job.id}/explanations?${queryString({ step })}` : null;
  const made = usePoll<ExplanationList>(path, SLOW_POLL_MS);
  const open = async () => {
    setOpen(true);
    onOpen?.();
    await runAndNotify("", async () => setCost(await getJson<ExplanationCost>(`/jobs/${job.id}/explanations/cost?${queryString({ step })}`)));
  };
  const [explain, isExplaining] = useOneAtATime(async () => {
    await runAndNotify(`Step ${integer(step)} is being repeated.`, () => sendJson<Job>("POST", `/jobs/${job.id}/explanations`, { step }));
    made.refresh();
  });
  if (job.source === "tracked" || job.explains) return null;
  if (!isOpen) return <button type="button" class="button small" onClick={() => void open()}>Explain step {integer(step)}</button>;
  return (
    <LoadState what="explanation" of={made}>
      {(list) => {
        const [newest] = list.items;
        const hasFailed = newest !== undefined && ["failed", "cancelled"].includes(newest.state);
        return (
          <>
            {newest && <MadeExplanation key={newest.job} job={job} id={newest.job} onEnd={made.refresh} />}
            {(!newest || hasFailed) && (
              <div class="row">
                <span>{cost ? costText(cost) : "The step is repeated exactly, as a job of its own."}</span>
                {canExplain && <button type="button" class="button primary" disabled={isExplaining} onClick={explain}>Repeat and explain</button>}
              </div>
            )}
          </>
        );
      }}
    </LoadState>
  );
}

function MadeExplanation({ job, id, onEnd }: { job: Job; id: string; onEnd: () => void }) {
  const [isDone, setDone] = useState(false);
  const found = usePoll<Explanation>(`/jobs/${job.id}/explanations/${id}`, isDone ? SLOW_POLL_MS : POLL_MS);
  const hasEnded = found.data !== null && found.data.finished_at !== null;
  if (hasEnded !== isDone) setDone(hasEnded);
  useEffect(() => { if (hasEnded) onEnd(); }, [hasEnded]);
  return (
    <LoadState what="explanation" of={found}>
      {(explanation) =>
        explanation.answer ? <ExplanationAnswer answer={explanation.answer as unknown as Answer} /> : (
          <p role="status">
            <Badge state={explanation.state} /> {explanation.message ?? "The steps before it are being repeated."}{" "}
            <a href={routeHref(["jobs", id])}>Job {id}</a>
          </p>
        )}
    </LoadState>
  );
}

function costText(cost: ExplanationCost): string {
  const origin = cost.first_step > 0 ? `from the checkpoint after ${integer(cost.first_step)} steps` : "from the first step";
  const time = cost.seconds === null ? "" : `, about ${duration(cost.seconds)} at the speed of the job`;
  return `${integer(cost.steps)} steps are repeated first, ${origin}${time}.`;
}
