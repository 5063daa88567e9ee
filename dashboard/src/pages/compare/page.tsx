// The page that compares up to 100 jobs.
import { useMemo } from "preact/hooks";
import { routeHref, go, queryString, type Route } from "../../router.ts";
import { usePoll } from "../../api/use-poll.ts";
import type { Comparison } from "../../api/types.ts";
import { EmptyState, LoadState } from "../../components/load-state.tsx";
import { BestJob } from "./best-job.tsx";
import { comparedColumns } from "./columns.ts";
import { CompareCoordinates } from "./coordinates.tsx";
import { Differences } from "./differences.tsx";
import { JobsTable } from "./jobs-table.tsx";
import { ComparePlots } from "./plots.tsx";
import { Picker } from "./picker.tsx";
import { compareValues, MAX_SIDE_BY_SIDE, parseCompareQuery, VIEWS, type CompareQuery } from "./query.ts";
import { CompareScatter } from "./scatter.tsx";

const POINTS = 500;
const POINTS_OF_MANY = 150;
const POLL_MS = 3000;
const POLL_MANY_MS = 20_000;

export function ComparePage({ route }: { route: Route }) {
  const selection = useMemo(() => parseCompareQuery(route.query), [route.query.toString()]);
  const { jobs, baseline } = selection;
  const isMany = jobs.length > MAX_SIDE_BY_SIDE;
  const path = jobs.length < 2 ? null : `/compare?${queryString({ jobs: jobs.join(","), baseline, max_points: isMany ? POINTS_OF_MANY : POINTS })}`;
  const comparison = usePoll<Comparison>(path, isMany ? POLL_MANY_MS : POLL_MS);
  const change = (changes: Partial<CompareQuery>) => go(routeHref(["compare"], compareValues({ ...selection, ...changes })), true);
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
              <Views comparison={loaded} selection={selection} onChange={change} />
            </div>
          )}
        </LoadState>
      )}
    </>
  );
}

interface ViewProps {
  comparison: Comparison;
  selection: CompareQuery;
  onChange: (changes: Partial<CompareQuery>) => void;
}

function Views({ comparison, selection, onChange }: ViewProps) {
  const columns = useMemo(() => comparedColumns(comparison), [comparison]);
  const shared = { comparison, columns, selection, onChange };
  return (
    <>
      <nav class="tabs" aria-label="Views of the comparison">
        {VIEWS.map(([view, title]) => (
          <a key={view} href={routeHref(["compare"], compareValues({ ...selection, view }))} aria-current={selection.view === view ? "page" : undefined}>{title}</a>
        ))}
      </nav>
      <BestJob {...shared} />
      {selection.view === "parallel" && <CompareCoordinates {...shared} />}
      {selection.view === "scatter" && <CompareScatter {...shared} />}
      {selection.view === "" && <ComparePlots {...shared} />}
      {selection.view === "" && (comparison.jobs.length > MAX_SIDE_BY_SIDE ? <JobsTable {...shared} /> : <Differences comparison={comparison} />)}
    </>
  );
}
