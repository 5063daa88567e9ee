// One job: how it stands, its plots, and everything that was told of it.
import { fragmentOf, type Place } from "../../address.ts";
import { usePoll } from "../../api/poll.ts";
import type { Job } from "../../api/types.ts";
import { Standing } from "../../parts/standing.tsx";
import { hasEnded } from "../../words/jobs.ts";
import { Attempts } from "./attempts.tsx";
import { Facts } from "./facts.tsx";
import { Files } from "./files.tsx";
import { JobHead } from "./head.tsx";
import { Ledger } from "./ledger.tsx";
import { Log } from "./log.tsx";
import { Plots } from "./plots.tsx";
import { Preflight } from "./preflight.tsx";
import { SpecText } from "./spec-text.tsx";

const LIVE_MS = 2000;
const ENDED_MS = 10_000;
const TABS = [
  ["plots", "Plots"], ["ledger", "Ledger"], ["log", "Log"], ["preflight", "Preflight"],
  ["attempts", "Attempts"], ["files", "Files"], ["spec", "Spec"],
] as const;

export interface TabProps {
  job: Job;
  place: Place;
  everyMs: number;
}

export function JobPage({ place }: { place: Place }) {
  const id = place.path[1] ?? "";
  const job = usePoll<Job>(`/jobs/${encodeURIComponent(id)}`, LIVE_MS);
  return (
    <Standing what="job" of={job}>
      {(job_) => <Shown job={job_} place={place} onDone={job.refresh} />}
    </Standing>
  );
}

function Shown({ job, place, onDone }: { job: Job; place: Place; onDone: () => void }) {
  const tab = place.query.get("tab") ?? "plots";
  const everyMs = hasEnded(job.state) ? ENDED_MS : LIVE_MS;
  return (
    <>
      <JobHead job={job} onDone={onDone} />
      <Facts job={job} />
      <nav class="tabs" aria-label="Parts of the job">
        {TABS.map(([name, title]) => (
          <a
            key={name}
            href={fragmentOf(["jobs", job.id], { tab: name === "plots" ? "" : name })}
            aria-current={tab === name ? "page" : undefined}
          >
            {title}
          </a>
        ))}
      </nav>
      <Tab name={tab} job={job} place={place} everyMs={everyMs} />
    </>
  );
}

function Tab({ name, ...props }: TabProps & { name: string }) {
  switch (name) {
    case "ledger": return <Ledger {...props} />;
    case "log": return <Log {...props} />;
    case "preflight": return <Preflight {...props} />;
    case "attempts": return <Attempts {...props} />;
    case "files": return <Files {...props} />;
    case "spec": return <SpecText {...props} />;
    default: return <Plots {...props} />;
  }
}
