// What was known of the job before it ran: from the ledger once it has begun, else asked for now.
import { queryOf } from "../../address.ts";
import { usePoll } from "../../api/poll.ts";
import type { EventPage } from "../../api/types.ts";
import { FigureList, Findings, type FigureFacts, type FindingFacts } from "../../parts/findings.tsx";
import { Empty, Standing } from "../../parts/standing.tsx";
import type { TabProps } from "./page.tsx";

export function Preflight({ job, everyMs }: TabProps) {
  const query = queryOf({ type: "preflight", limit: 200 });
  const entries = usePoll<EventPage>(`/jobs/${job.id}/events?${query}`, everyMs);
  return (
    <Standing what="findings" of={entries}>
      {(page) => {
        const told = page.items.map((event) => event.data as unknown as FindingFacts);
        const figures = told.find((finding) => finding.code === "figures");
        const findings = told.filter((finding) => finding !== figures);
        if (told.length === 0) return <Empty title="No findings yet">They are told when the job begins.</Empty>;
        return (
          <div class="stack">
            <Findings findings={findings} />
            {figures && <FigureList figures={figures.data as unknown as FigureFacts} />}
          </div>
        );
      }}
    </Standing>
  );
}
