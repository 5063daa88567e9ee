// Asks a question about the spec of a job: shows the cost, creates the study, and opens it.
import { useRef, useState } from "preact/hooks";
import { toApiError } from "../api/connection.ts";
import { sendJson } from "../api/request.ts";
import type { Estimate, Job, Study } from "../api/types.ts";
import { estimateText, STUDY_QUESTIONS, studyRequest, type StudyKind } from "../display/studies.ts";
import { isTracked } from "../display/jobs.ts";
import { runAndNotify } from "../notifications.ts";
import { currentPage, goFrom, routeHref } from "../router.ts";
import { useCanEditJobs } from "../session.ts";

export function StudyButton({ job, kind }: { job: Job; kind: StudyKind }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [cost, setCost] = useState("");
  if (!useCanEditJobs() || isTracked(job)) return null;
  const { short, question, how } = STUDY_QUESTIONS[kind];
  const open = async () => {
    setCost("Estimating the cost…");
    dialog.current?.showModal();
    try {
      setCost(estimateText(await sendJson<Estimate>("POST", "/studies/estimate", studyRequest(job, kind))));
    } catch (error) {
      setCost(toApiError(error).message);
    }
  };
  const create = async () => {
    const page = currentPage();
    dialog.current?.close();
    const sent: { study: Study | null } = { study: null };
    const work = async () => {
      sent.study = await sendJson<Study>("POST", "/studies", studyRequest(job, kind));
    };
    await runAndNotify("The study is created.", work);
    if (sent.study) goFrom(page, routeHref(["studies", sent.study.id]));
  };
  return (
    <>
      <button type="button" class="button" onClick={() => void open()}>{short}</button>
      <dialog ref={dialog} aria-label={short} class="dialog">
        <h2>{question}</h2>
        <p>{how}</p>
        <p role="status">{cost}</p>
        <div class="row end">
          <button type="button" class="button" onClick={() => dialog.current?.close()}>Cancel</button>
          <button type="button" class="button primary" onClick={() => void create()}>Start the study</button>
        </div>
      </dialog>
    </>
  );
}
