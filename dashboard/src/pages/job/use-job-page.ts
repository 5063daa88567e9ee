// The data of a job's page: loaded once, then kept up to date by the event stream; polled while there is
// none.
import { useEffect, useRef, useState } from "preact/hooks";
import { retryCount } from "../../api/connection.ts";
import { JobStream, type StreamKind } from "../../api/job-stream.ts";
import { usePoll, type Polled } from "../../api/use-poll.ts";
import type { Job, Steps, StepsEvent } from "../../api/types.ts";
import { hasEnded } from "../../display/jobs.ts";
import { jobAfterSteps, jobOfResponse, stepsOfResponse, withNewSteps } from "../../display/live-steps.ts";
import type { Route } from "../../router.ts";
import { isZoomed, stepsPath } from "./plots.tsx";
import { rangeFromQuery } from "./ranges.ts";
import { useEvaluations, type JobEvaluations } from "./use-evaluations.ts";

const POLL_MS = 2000;
const ENDED_MS = 10_000;
/** With the event stream: for what it does not have, such as the totals of the summary. */
const STREAMED_MS = 15_000;
const STREAMED_CURVES_MS = 60_000;
/** How often the entries of the stream are shown, and how often they may start requests. */
const SHOW_MS = 1000;
const PULSE_MS = 2000;
const HEADER_COLUMNS = "loss,loss_scale,grad_norm,learning_rate";

export interface JobPageData {
  job: Polled<Job>;
  steps: Polled<Steps>;
  evaluations: JobEvaluations;
  intervalMs: number;
  pulse: number;
}

export function useJobPage(id: string, tab: string, route: Route): JobPageData {
  const [isStreamed, setStreamed] = useState(false);
  const [pulse, setPulse] = useState(0);
  const [state, setState] = useState<Job | null>(null);
  const intervalMs = state && hasEnded(state.state) ? ENDED_MS : isStreamed ? STREAMED_MS : POLL_MS;
  // Why a job waits, and how far its uploads are, is not in the stream.
  const jobMs = state && (state.state === "queued" || state.uploading) ? POLL_MS : intervalMs;
  const curvesMs = isStreamed ? STREAMED_CURVES_MS : intervalMs;
  const hasPlots = tab === "plots";
  const job = usePoll<Job>(`/jobs/${encodeURIComponent(id)}`, jobMs, pulse, jobOfResponse);
  // Requested at the same time as the job, not after it.
  const steps = usePoll<Steps>(hasPlots ? stepsPath(id, route.query) : null, curvesMs, 0, stepsOfResponse);
  const evaluations = useEvaluations(hasPlots ? id : null, rangeFromQuery(route.query), curvesMs, pulse);
  useEffect(() => setState(job.data), [job.data]);

  const show = useRef<(events: StepsEvent[]) => void>(() => undefined);
  show.current = (events) => {
    job.update((known) => events.reduce(jobAfterSteps, known));
    if (!hasPlots || isZoomed(route.query)) return;
    steps.update((known) => events.reduce<Steps | null>((joined, event) => joined && withNewSteps(joined, event), known));
  };
  const isOver = state === null || hasEnded(state.state);
  useEffect(() => {
    if (isOver) return;
    return followJob(id, hasPlots ? null : HEADER_COLUMNS, tab === "log" ? ["logs"] : [], {
      show: (events) => show.current(events),
      pulse: () => setPulse((count) => count + 1),
      streamed: setStreamed,
    });
  }, [id, tab, isOver]);
  return { job, steps, evaluations, intervalMs, pulse };
}

interface Followers {
  show(events: StepsEvent[]): void;
  pulse(): void;
  streamed(isStreamed: boolean): void;
}

/** Follow the job while the page is visible; returns a function that ends it. */
function followJob(id: string, columns: string | null, more: readonly StreamKind[], followers: Followers): () => void {
  let events: StepsEvent[] = [];
  const show = throttled(SHOW_MS, () => {
    followers.show(events);
    events = [];
  });
  const pulse = throttled(PULSE_MS, () => followers.pulse());
  const stream = new JobStream(id, ["steps", "events", ...more], columns, {
    steps: (event) => {
      events.push(event);
      show.soon();
    },
    entry: () => pulse.soon(),
    open: followers.streamed,
  });
  const openIfVisible = () => (document.hidden ? stream.close() : void stream.open());
  openIfVisible();
  document.addEventListener("visibilitychange", openIfVisible);
  const unsubscribe = retryCount.subscribe(openIfVisible);
  return () => {
    document.removeEventListener("visibilitychange", openIfVisible);
    unsubscribe();
    stream.close();
    show.stop();
    pulse.stop();
  };
}

/** Calls `work` soon after `soon()`, at most once in `ms` milliseconds. */
function throttled(ms: number, work: () => void): { soon(): void; stop(): void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let calledAt = 0;
  const call = () => {
    timer = undefined;
    calledAt = Date.now();
    work();
  };
  return {
    soon: () => {
      timer ??= setTimeout(call, Math.max(0, calledAt + ms - Date.now()));
    },
    stop: () => clearTimeout(timer),
  };
}
