// What a job trains on, from its event `started`: rows, columns, classes, and what is left out.
import type { JsonObject } from "../api/types.ts";
import { integer } from "./format.ts";

export interface DataTable {
  title: string;
  heads: string[];
  rows: string[][];
  /** Entries that the event does not list. */
  more: number;
}

export interface DataSummary {
  sentence: string;
  tables: DataTable[];
}

const ORIGINS: Record<string, string> = { own_part: " (a part of its own)", random: " (chosen at random)", last: " (the last rows)" };
const ROLES: Record<string, string> = { input: "input", target: "target", left_out: "not used" };

/** The summary in the data of an event; null for jobs of older workers, and for data of another form. */
export function dataSummary(started: JsonObject | undefined): DataSummary | null {
  const data = started?.["data"];
  if (data === null || typeof data !== "object" || Array.isArray(data) || typeof data["train"] !== "number") return null;
  const columns = objects(data["columns"]);
  const leftOut = objects(data["left_out"]);
  const targets = Object.entries(data["targets"] ?? {}) as [string, JsonObject][];
  const tables = [
    {
      title: "Columns",
      heads: ["Column", "Role", "Type", "Preparation"],
      rows: columns.map((column) => [text(column["name"]), ROLES[text(column["role"])] ?? text(column["role"]), text(column["dtype"]), text(column["preparation"])]),
      more: count(data["column_count"]) - columns.length,
    },
    ...targets.map(([output, target]) => classTable(targets.length > 1 ? `Classes of ${output}` : "Classes", target)),
    {
      title: "Left out",
      heads: ["Name", "Reason"],
      rows: leftOut.map((part) => [text(part["name"]), text(part["reason"])]),
      more: count(data["left_out_count"]) - leftOut.length,
    },
  ];
  return { sentence: sentence(data), tables: tables.filter(({ rows }) => rows.length > 0) };
}

function classTable(title: string, target: JsonObject): DataTable {
  const classes = objects(target["classes"]);
  return {
    title,
    heads: ["Class", "Training examples"],
    rows: classes.map((entry) => [text(entry["name"]), integer(entry["examples"] as number | null | undefined)]),
    more: classes.length < 100 ? 0 : count(target["size"]) - classes.length,
  };
}

function sentence(data: JsonObject): string {
  const validation = count(data["validation"]);
  const origin = ORIGINS[text(data["validation_rows"])] ?? "";
  const leftOut = count(data["train_left_out"]), validationLeftOut = count(data["validation_left_out"]);
  const withoutTarget = leftOut + validationLeftOut > 0
    ? ` Rows without a target are left out: ${integer(leftOut)} to train on, ${integer(validationLeftOut)} for validation.`
    : "";
  return `Trains on ${integer(count(data["train"]))} rows` + (validation > 0 ? `, ${integer(validation)} are for validation${origin}.` : ", none are for validation.") + withoutTarget;
}

function objects(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter((entry): entry is JsonObject => entry !== null && typeof entry === "object") : [];
}

function count(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
