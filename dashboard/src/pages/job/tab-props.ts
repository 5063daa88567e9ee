// The properties of the tabs of a job's page.
import type { Polled } from "../../api/use-poll.ts";
import type { Job, Steps } from "../../api/types.ts";
import type { Route } from "../../router.ts";
import type { JobEvaluations } from "./use-evaluations.ts";

export interface TabProps {
  job: Job;
  route: Route;
  /** How often the tab polls the API. */
  intervalMs: number;
  /** Changes when the event stream has new entries for the tab, which then polls at once. */
  pulse: number;
  /** The steps in view; polled by the page, so that they load at the same time as the job. */
  steps: Polled<Steps>;
  evaluations: JobEvaluations;
}
