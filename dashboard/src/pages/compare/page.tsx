// The page that compares up to ten jobs.
import { routeHref, go, queryString, type Route } from "../../router.ts";
import { usePoll } from "../../api/use-poll.ts";
import type { Comparison } from "../../api/types.ts";
import { EmptyState, LoadState } from "../../components/load-state.tsx";
import { Differences } from "./differences.tsx";
import { ComparePlots } from "./plots.tsx";
import { Picker } from "./picker.tsx";
import { parseCompareQuery, type CompareQuery } from "./query.ts";

const POINTS = 500;
const POLL_MS = 3000;

export function ComparePage({ route }: { route: Route }) {
  const selection = parseCompareQuery(route.query);
  const { jobs, baseline } = selection;
  const path = jobs.length < 2 ? null : `/compare?${queryString({ jobs: jobs.join(","), baseline, max_points: POINTS })}`;
  const comparison = usePoll<Comparison>(path, POLL_MS);
  const change = (changes: Partial<CompareQuery>) => {
    const next = { ...selection, ...changes };
    go(routeHref(["compare"], { jobs: next.jobs.join(","), baseline: next.baseline, by: next.by === "time" ? "time" : "" }), true);
  };
  return (
    <>
      <h1>Compare</h1>
      <Picker selection={selection} comparison={path === null ? null : comparison.data} onChange={change} />
      {path === null ? (
        <EmptyState title="Select at least two jobs">Add jobs above, or select them in the <a href="#/jobs">list of jobs</a>.</EmptyState>
      ) : (
        <LoadState what="comparison" of={comparison}>
          {(loaded) => (
            <div class={`stack ${comparison.stale ? "stale" : ""}`} aria-busy={comparison.stale}>
              <ComparePlots comparison={loaded} by={selection.by} />
              <Differences comparison={loaded} />
            </div>
          )}
        </LoadState>
      )}
    </>
  );
}
