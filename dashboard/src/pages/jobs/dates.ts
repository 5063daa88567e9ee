// The days between which the listed jobs were created, in the local time zone.
export interface Days {
  created: string;
  from: string;
  to: string;
}

/** Whole days, so that the query stays the same until midnight: its ETags and cursors stay valid. */
export const RANGES = [["1d", "Today"], ["7d", "Last 7 days"], ["30d", "Last 30 days"]] as const;

/** The API's parameters of these days; a day that is none is no filter. */
export function createdBounds({ created, from, to }: Days, now: Date): { created_after: string; created_before: string } {
  const days = /^([1-9]\d{0,3})d$/.exec(created);
  const first = days ? dayFrom(now, 1 - Number(days[1])) : parseDay(from);
  const last = days ? null : parseDay(to);
  return {
    created_after: first ? new Date(first.getTime() - 1).toISOString() : "", // the first moment of the day belongs to it
    created_before: last ? dayFrom(last, 1).toISOString() : "",
  };
}

/** A day as in an address and in the value of a date input. */
export function dayText(date: Date): string {
  return [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, "0")).join("-");
}

/** The first moment of a day that is `days` after a date; a day may have 23 or 25 hours. */
function dayFrom(date: Date, days: number): Date {
  return new Date(date.getFullYear(), date.getMonth(), date.getDate() + days);
}

function parseDay(text: string): Date | null {
  const parts = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text);
  if (!parts) return null;
  const date = new Date(Number(parts[1]), Number(parts[2]) - 1, Number(parts[3]));
  return dayText(date) === text ? date : null;
}
