// The page of one job: header, summary and tabs.
import { routeHref, type Route } from "../../router.ts";
import { LoadState } from "../../components/load-state.tsx";
import { isTracked } from "../../display/jobs.ts";
import { Attempts } from "./attempts.tsx";
import { DataSummary } from "./data-summary.tsx";
import { JobSummary } from "./summary.tsx";
import { Artifacts } from "./artifacts.tsx";
import { JobHeader } from "./header.tsx";
import { InitialWeights } from "./initial-weights.tsx";
import { Evaluation } from "./evaluation/tab.tsx";
import { EventsTab } from "./events.tsx";
import { Log } from "./log.tsx";
import { CustomCode } from "./custom-code.tsx";
import { Pictures } from "./pictures.tsx";
import { Plots } from "./plots.tsx";
import { Preflight } from "./preflight.tsx";
import { Profile } from "./profile.tsx";
import { RangesTab } from "./ranges-tab.tsx";
import { SpecText } from "./spec-text.tsx";
import type { TabProps } from "./tab-props.ts";
import { useJobPage } from "./use-job-page.ts";

const TABS = [
  ["plots", "Plots"], ["pictures", "Pictures"], ["evaluation", "Evaluation"], ["ranges", "Ranges"], ["events", "Events"], ["log", "Log"], ["preflight", "Preflight"],
  ["profile", "Profile"], ["attempts", "Attempts"], ["files", "Files"], ["spec", "Spec"],
] as const;
/** What only a job on a worker has. */
const WORKER_TABS: ReadonlySet<string> = new Set(["evaluation", "ranges", "preflight", "profile", "files"]);
/** What only a program elsewhere logs. */
const TRACKED_TABS: ReadonlySet<string> = new Set(["pictures"]);

export function JobPage({ route }: { route: Route }) {
  const id = route.path[1] ?? "";
  const tab = route.query.get("tab") ?? "plots";
  const { job, ...data } = useJobPage(id, tab, route);
  return (
    <LoadState what="job" of={job}>
      {(loaded) => <JobTabs job={loaded} {...{ tab, route, ...data }} onDone={job.refresh} />}
    </LoadState>
  );
}

function JobTabs({ tab, onDone, ...props }: TabProps & { tab: string; onDone: () => void }) {
  const { job } = props;
  return (
    <>
      <JobHeader job={job} onDone={onDone} />
      <InitialWeights job={job} intervalMs={props.intervalMs} pulse={props.pulse} />
      <CustomCode job={job} />
      <DataSummary job={job} intervalMs={props.intervalMs} pulse={props.pulse} />
      <JobSummary job={job} />
      <nav class="tabs" aria-label="Job details">
        {TABS.filter(([name]) => !(isTracked(job) ? WORKER_TABS : TRACKED_TABS).has(name)).map(([name, title]) => (
          <a
            key={name}
            href={routeHref(["jobs", job.id], { tab: name === "plots" ? "" : name })}
            aria-current={tab === name ? "page" : undefined}
          >
            {title}
          </a>
        ))}
      </nav>
      <Tab name={tab} {...props} />
    </>
  );
}

function Tab({ name, ...props }: TabProps & { name: string }) {
  switch (name) {
    case "ledger": // links of version 0.5
    case "events": return <EventsTab {...props} />;
    case "evaluation": return <Evaluation {...props} />;
    case "ranges": return <RangesTab {...props} />;
    case "pictures": return <Pictures {...props} />;
    case "log": return <Log {...props} />;
    case "preflight": return <Preflight {...props} />;
    case "profile": return <Profile {...props} />;
    case "attempts": return <Attempts {...props} />;
    case "files": return <Artifacts {...props} />;
    case "spec": return <SpecText {...props} />;
    default: return <Plots {...props} />;
  }
}
