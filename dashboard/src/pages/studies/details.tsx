// One study: its state and progress, its answer, and its jobs.
import { currentPage, goFrom, routeHref } from "../../router.ts";
import { usePoll } from "../../api/use-poll.ts";
import { sendJson } from "../../api/request.ts";
import type { Study, StudyJob } from "../../api/types.ts";
import { runAndNotify } from "../../notifications.ts";
import { Badge } from "../../components/badge.tsx";
import { ConfirmButton } from "../../components/buttons.tsx";
import { LoadState } from "../../components/load-state.tsx";
import { useCanEditJobs } from "../../session.ts";
import { dateTime, integer, percent } from "../../display/format.ts";
import { MAX_COMPARED } from "../compare/query.ts";
import { jobCount } from "../jobs/selection.ts";
import { BisectResult } from "./bisect.tsx";
import { CapacityResult } from "./capacity.tsx";
import { PrecisionResult } from "./precision.tsx";
import { SearchResult } from "./search.tsx";

const QUESTIONS: Readonly<Record<string, string>> = {
  precision: "Which policy is as accurate as float32, and how much faster is it?",
  capacity: "How large may the batch be, and where does a larger one gain no speed?",
  bisect: "Which layers need float32?",
  search: "Which values of hyper-parameters are best?",
};

export function StudyDetails({ id }: { id: string }) {
  const study = usePoll<Study>(`/studies/${encodeURIComponent(id)}`, 2000);
  return (
    <LoadState what="study" of={study}>
      {(data) => <Loaded study={data} onDone={study.refresh} />}
    </LoadState>
  );
}

function Loaded({ study, onDone }: { study: Study; onDone: () => void }) {
  return (
    <>
      <div class="row spread">
        <div class="row">
          <h1 class="break">{study.name}</h1>
          <Badge state={study.state} />
        </div>
        <Actions study={study} onDone={onDone} />
      </div>
      <p class="muted">{QUESTIONS[study.kind] ?? study.kind}</p>
      {study.message && <p class={`callout ${study.state === "failed" ? "error" : "info"}`}>{study.message}</p>}
      {study.finished_at === null && <StudyProgress study={study} />}
      {study.answer?.kind === "precision" && <PrecisionResult answer={study.answer} />}
      {study.answer?.kind === "bisect" && <BisectResult answer={study.answer} />}
      {study.answer?.kind === "capacity" && <CapacityResult answer={study.answer} />}
      {study.answer?.kind === "search" && <SearchResult answer={study.answer} />}
      <h2>Jobs</h2>
      <JobTable jobs={study.jobs} />
      <p class="muted">
        Study <code>{study.id}</code>, created {dateTime(study.created_at)}{study.created_by && ` by ${study.created_by}`}.
      </p>
    </>
  );
}

function Actions({ study, onDone }: { study: Study; onDone: () => void }) {
  const canEdit = useCanEditJobs();
  const comparable = study.jobs.flatMap(({ job }) => job ?? []).slice(0, MAX_COMPARED);
  const cancel = async () => {
    await runAndNotify(`${study.name} is being cancelled.`, () => sendJson("POST", `/studies/${study.id}/cancel`));
    onDone();
  };
  const remove = async () => {
    const page = currentPage();
    const work = () => sendJson("DELETE", `/studies/${study.id}`);
    if (await runAndNotify(`${study.name} was deleted.`, work)) goFrom(page, "#/studies");
  };
  return (
    <div class="row">
      {comparable.length > 1 && <a class="button" href={routeHref(["compare"], { jobs: comparable.join(",") })}>Compare {jobCount(comparable.length)}</a>}
      {study.answer && <a class="button" href={`/api/v1/studies/${study.id}/report`} download={`${study.id}.md`}>Markdown</a>}
      {canEdit && study.state === "running" && (
        <ConfirmButton label="Cancel study" question={`Cancel ${study.name}?`} danger onConfirm={() => void cancel()}>
          Its jobs that have not ended are cancelled, too.
        </ConfirmButton>
      )}
      {canEdit && study.finished_at !== null && (
        <ConfirmButton label="Delete study" question={`Delete ${study.name}?`} danger onConfirm={() => void remove()}>
          Its answer is deleted. Its jobs stay.
        </ConfirmButton>
      )}
    </div>
  );
}

function StudyProgress({ study }: { study: Study }) {
  return (
    <p class="progress">
      <progress max={1} value={study.progress ?? 0} aria-label="Progress of the study" />
      <span class="progress-words">
        {integer(study.jobs_ended)} of {integer(study.jobs_planned)} jobs have ended, {percent(study.progress)}
      </span>
    </p>
  );
}

function JobTable({ jobs }: { jobs: readonly StudyJob[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Jobs of the study">
      <table class="table" aria-label="Jobs of the study">
        <thead>
          <tr><th scope="col">Job</th><th scope="col">State</th><th scope="col" class="number">Progress</th><th scope="col">Differs from the spec</th></tr>
        </thead>
        <tbody>
          {jobs.map((one) => (
            <tr key={one.key}>
              <td>{one.job === null ? one.key : <a href={routeHref(["jobs", one.job])}>{one.key}</a>}</td>
              <td><Badge state={one.state} /></td>
              <td class="number">{percent(one.progress)}</td>
              <td class="muted"><code>{changesText(one.changes)}</code></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function changesText(changes: Record<string, unknown>): string {
  return Object.entries(changes).map(([path, value]) => `${path}=${JSON.stringify(value)}`).join(" ");
}
