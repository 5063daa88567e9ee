// One job: how it stands, its plots, and everything that was told of it.
import { useEffect, useState } from "preact/hooks";
import { fragmentOf, type Place } from "../../address.ts";
import { usePoll, type Polled } from "../../api/poll.ts";
import type { Job, Steps } from "../../api/types.ts";
import { Standing } from "../../parts/standing.tsx";
import { hasEnded } from "../../words/jobs.ts";
import { Attempts } from "./attempts.tsx";
import { Facts } from "./facts.tsx";
import { Files } from "./files.tsx";
import { JobHead } from "./head.tsx";
import { Ledger } from "./ledger.tsx";
import { Log } from "./log.tsx";
import { Plots, stepsOf } from "./plots.tsx";
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
  steps: Polled<Steps>;
}

export function JobPage({ place }: { place: Place }) {
  const id = place.path[1] ?? "";
  const tab = place.query.get("tab") ?? "plots";
  const [everyMs, setEveryMs] = useState(LIVE_MS);
  const job = usePoll<Job>(`/jobs/${encodeURIComponent(id)}`, everyMs);
  // Asked for beside the job, not after it.
  const steps = usePoll<Steps>(tab === "plots" ? stepsOf(id, place.query) : null, everyMs);
  const state = job.data?.state;
  useEffect(() => setEveryMs(state && hasEnded(state) ? ENDED_MS : LIVE_MS), [state]);
  return (
    <Standing what="job" of={job}>
      {(told) => <Shown job={told} {...{ tab, place, everyMs, steps }} onDone={job.refresh} />}
    </Standing>
  );
}

function Shown({ tab, onDone, ...props }: TabProps & { tab: string; onDone: () => void }) {
  const { job } = props;
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
      <Tab name={tab} {...props} />
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
