// The list of jobs.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { go, type Route } from "../../router.ts";
import { usePoll } from "../../api/use-poll.ts";
import type { JobPage, ListedJob } from "../../api/types.ts";
import { EmptyState, LoadState } from "../../components/load-state.tsx";
import { useCanEditJobs } from "../../session.ts";
import { BulkBar } from "./bulk/bar.tsx";
import { chosenIds, columnsOf, fittingColumns } from "./columns.ts";
import { FilterBar } from "./filter-bar.tsx";
import { filtersHref, parseFilters, hasFilters, jobsPath, listedMetric, type Filters } from "./filters.ts";
import { ColumnsMenu, ViewsMenu } from "./menus.tsx";
import { Pages } from "./pages.tsx";
import { ShortcutsDialog } from "./keys/dialog.tsx";
import { JobTable } from "./table.tsx";
import { useSelection } from "./use-selection.ts";
import { useShortcuts } from "./keys/use-shortcuts.ts";
import { hrefWithColumns, rememberedColumns } from "./views.ts";

export function JobsPage({ route }: { route: Route }) {
  const filters = parseFilters(route.query);
  const jobs = usePoll<JobPage>(jobsPath(filters), 2000);
  const { selection, studyIds, select, selectAll, selectStudy, remove, onJobs, clear } = useSelection(filters);
  const [frame, widthPx] = useWidth();
  const help = useRef<HTMLDialogElement>(null);
  const canEdit = useCanEditJobs();
  const items = jobs.data?.items ?? [];
  const listed = items.filter(({ study }) => !study);
  const chosen = chosenIds(filters.columns);
  const { shown, hidden } = fittingColumns(columnsOf(chosen, listedMetric(filters)), widthPx);
  useEffect(() => onJobs(listed), [jobs.data]);
  useRememberedColumns(filters);
  useShortcuts({ clear, help: () => help.current?.showModal() });
  return (
    <div ref={frame} class="stack">
      <div class="row spread">
        <h1>Jobs</h1>
        <div class="row">
          <ViewsMenu key={filters.view} filters={filters} />
          <a class="button" href="#/trash">Trash</a>
          <ColumnsMenu chosen={chosen} hidden={hidden} metrics={metricsOf(items)} />
          <button type="button" class="button wide-only" aria-label="Keyboard shortcuts" onClick={() => help.current?.showModal()}>?</button>
          {canEdit && <a class="button primary" href="#/submit">Submit a job</a>}
        </div>
      </div>
      <FilterBar filters={filters} metrics={metricsOf(items)} />
      <LoadState what="list of jobs" of={jobs}>
        {(page) =>
          page.items.length === 0 ? (
            <NoJobs filters={filters} />
          ) : (
            <div class={jobs.stale ? "stale" : ""} aria-busy={jobs.stale}>
              <JobTable
                jobs={page.items} filters={filters} columns={shown} widthPx={widthPx} selection={selection} studyIds={studyIds}
                onSelect={select} onSelectStudy={selectStudy} onSelectPage={(isOn) => selectAll(listed, isOn)} onStudyJobs={onJobs} onDone={jobs.refresh}
              />
            </div>
          )
        }
      </LoadState>
      {(!jobs.stale || jobs.error) && <Pages filters={filters} next={jobs.stale ? null : (jobs.data?.next_cursor ?? null)} />}
      {selection.size > 0 && (
        <BulkBar
          selection={selection}
          onClear={clear}
          onDone={(deletedIds) => {
            remove(deletedIds);
            jobs.refresh();
          }}
        />
      )}
      <ShortcutsDialog dialog={help} />
    </div>
  );
}

/** The element whose width is measured, and the width in pixels. */
function useWidth(): [frame: { current: HTMLDivElement | null }, widthPx: number] {
  const frame = useRef<HTMLDivElement>(null);
  const [widthPx, setWidthPx] = useState(0);
  useLayoutEffect(() => {
    const measure = () => setWidthPx(frame.current?.clientWidth ?? 0);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, []);
  return [frame, widthPx];
}

/** Writes the columns that were chosen last into an address without any, so that its link shows them to others. */
function useRememberedColumns(filters: Filters): void {
  const href = filtersHref(filters);
  useEffect(() => {
    const next = hrefWithColumns(location.hash, rememberedColumns());
    if (next !== null) go(next, true);
  }, [href]);
}

/** The metrics of the listed jobs. */
function metricsOf(jobs: readonly ListedJob[]): string[] {
  return [...new Set(jobs.flatMap((job) => Object.keys(job.metrics ?? {})))];
}

function NoJobs({ filters }: { filters: Filters }) {
  const canEditJobs = useCanEditJobs();
  if (hasFilters(filters) || filters.cursor) {
    return <EmptyState title="No matching jobs">Remove a filter, or <a href="#/jobs">show all jobs</a>.</EmptyState>;
  }
  return (
    <EmptyState title="No jobs yet">
      {canEditJobs ? <><a href="#/submit">Submit a job here</a>, or </> : "Your token is read-only. Members submit jobs "}
      with <code>ampctl submit job.yaml</code>.
    </EmptyState>
  );
}
