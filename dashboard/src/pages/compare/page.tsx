// Up to ten jobs side by side.
import { fragmentOf, go, queryOf, type Place } from "../../address.ts";
import { usePoll } from "../../api/poll.ts";
import type { Comparison } from "../../api/types.ts";
import { Empty, Standing } from "../../parts/standing.tsx";
import type { By } from "../../plots/overlay.ts";
import { Differences } from "./differences.tsx";
import { Overlays } from "./overlays.tsx";
import { Picker } from "./picker.tsx";

const POINTS = 500;
const EVERY_MS = 3000;

export interface Choices {
  jobs: readonly string[];
  baseline: string;
  by: By;
}

export function choicesOf(query: URLSearchParams): Choices {
  const jobs = [...new Set((query.get("jobs") ?? "").split(",").filter((id) => id !== ""))];
  const asked = query.get("baseline") ?? "";
  return { jobs, baseline: jobs.includes(asked) ? asked : (jobs[0] ?? ""), by: query.get("by") === "time" ? "time" : "step" };
}

export function ComparePage({ place }: { place: Place }) {
  const choices = choicesOf(place.query);
  const { jobs, baseline } = choices;
  const path = jobs.length < 2 ? null : `/compare?${queryOf({ jobs: jobs.join(","), baseline, max_points: POINTS })}`;
  const comparison = usePoll<Comparison>(path, EVERY_MS);
  const change = (changes: Partial<Choices>) => {
    const next = { ...choices, ...changes };
    go(fragmentOf(["compare"], { jobs: next.jobs.join(","), baseline: next.baseline, by: next.by === "time" ? "time" : "" }), true);
  };
  return (
    <>
      <h1>Compare</h1>
      <Picker choices={choices} comparison={path === null ? null : comparison.data} onChange={change} />
      {path === null ? (
        <Empty title="Choose two jobs or more">Add them above, or tick them in the <a href="#/jobs">list of jobs</a>.</Empty>
      ) : (
        <Standing what="comparison" of={comparison}>
          {(told) => (
            <div class={`stack ${comparison.stale ? "stale" : ""}`} aria-busy={comparison.stale}>
              <Overlays comparison={told} by={choices.by} />
              <Differences comparison={told} />
            </div>
          )}
        </Standing>
      )}
    </>
  );
}
