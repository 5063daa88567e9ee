// The selection of the list: it lasts while pages and filters change.
import { useCallback, useRef, useState } from "preact/hooks";
import { getJson } from "../../api/request.ts";
import type { FoldedStudy, JobPage, ListedJob } from "../../api/types.ts";
import { runAndNotify } from "../../notifications.ts";
import { studyJobsPath, type Filters } from "./filters.ts";
import { NOTHING, rangeOf, refreshed, selecting, type Selection } from "./selection.ts";
import { listedIds } from "./keys/use-shortcuts.ts";

const STUDY_PAGE = 100;

export interface JobSelection {
  selection: Selection;
  /** The ids of the jobs of the studies that were selected as a whole. */
  studyIds: ReadonlyMap<string, readonly string[]>;
  select: (job: ListedJob, isOn: boolean, isRange: boolean) => void;
  selectAll: (jobs: readonly ListedJob[], isOn: boolean) => void;
  selectStudy: (study: FoldedStudy, isOn: boolean) => void;
  clear: () => void;
  remove: (ids: readonly string[]) => void;
  /** To be called with the jobs of each response, which may have changed. */
  onJobs: (jobs: readonly ListedJob[]) => void;
}

export function useSelection(filters: Filters): JobSelection {
  const [selection, setSelection] = useState<Selection>(NOTHING);
  const listed = useRef(new Map<string, ListedJob>());
  const [studyIds, setStudyIds] = useState<ReadonlyMap<string, readonly string[]>>(new Map());
  const anchor = useRef<string | null>(null);
  const selectAll = (jobs: readonly ListedJob[], isOn: boolean) => setSelection((current) => selecting(current, jobs, isOn));
  const select = (job: ListedJob, isOn: boolean, isRange: boolean) => {
    const ids = isRange ? rangeOf(listedIds(), anchor.current, job.id) : [job.id];
    anchor.current = job.id;
    selectAll(ids.map((id) => listed.current.get(id)).filter((other) => other !== undefined), isOn);
  };
  const selectStudy = (study: FoldedStudy, isOn: boolean) =>
    void runAndNotify("", async () => {
      const jobs = await jobsOfStudy(filters, study.id);
      setStudyIds((ids) => new Map(ids).set(study.id, jobs.map(({ id }) => id)));
      selectAll(jobs, isOn);
    });
  const remove = (ids: readonly string[]) => setSelection((current) => new Map([...current].filter(([id]) => !ids.includes(id))));
  const onJobs = useCallback((jobs: readonly ListedJob[]) => {
    for (const job of jobs) listed.current.set(job.id, job);
    setSelection((current) => refreshed(current, jobs));
  }, []);
  return { selection, studyIds, select, selectAll, selectStudy, remove, onJobs, clear: () => setSelection(NOTHING) };
}

async function jobsOfStudy(filters: Filters, study: string): Promise<ListedJob[]> {
  const jobs: ListedJob[] = [];
  let cursor: string | null = "";
  while (cursor !== null) {
    const page: JobPage = await getJson<JobPage>(studyJobsPath(filters, study, cursor, STUDY_PAGE));
    jobs.push(...page.items);
    cursor = page.next_cursor;
  }
  return jobs;
}
