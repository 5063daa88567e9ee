// The evaluations of a job's plots. Those of the whole run are loaded once: zooming needs no further
// request unless the run has so many that the API returns a sample of them.
import { useMemo } from "preact/hooks";
import { usePoll } from "../../api/use-poll.ts";
import type { Evaluation, EvaluationPage } from "../../api/types.ts";
import { queryString } from "../../router.ts";
import type { StepRange } from "../../plots/skip-markers.ts";
import { evaluationsInRange, hasEveryEvaluation } from "../../plots/evaluations.ts";

const MAX_EVALUATIONS = 1000;

export interface JobEvaluations {
  /** Of all steps, and of those in view; null until they have loaded. */
  all: readonly Evaluation[] | null;
  inView: readonly Evaluation[] | null;
  hasFailed: boolean;
}

/** An id of null loads nothing. */
export function useEvaluations(id: string | null, range: StepRange | null, intervalMs: number, pulse: number): JobEvaluations {
  const whole = usePoll<EvaluationPage>(id && path(id), intervalMs, pulse);
  const all = whole.data?.items ?? null;
  const needsMore = all !== null && range !== null && !hasEveryEvaluation(all, MAX_EVALUATIONS);
  const view = usePoll<EvaluationPage>(id && needsMore ? path(id, range) : null, intervalMs, pulse);
  const finer = needsMore && !view.stale ? (view.data?.items ?? null) : null;
  const inView = useMemo(() => finer ?? (all && range ? evaluationsInRange(all, range) : all), [all, finer, range?.[0], range?.[1]]);
  return { all, inView, hasFailed: whole.error !== null };
}

function path(id: string, range?: StepRange): string {
  const view = range && { after: range[0] - 1, end: range[1] + 1 };
  return `/jobs/${encodeURIComponent(id)}/evaluations?${queryString({ max_points: MAX_EVALUATIONS, ...view })}`;
}
