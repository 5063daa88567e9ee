// The output of a job in lines, and which of them TensorFlow prints whenever it starts.
import type { LogEntry } from "../api/types.ts";

export interface LogLine {
  key: string;
  stream: string;
  text: string;
  isStartup: boolean;
}

const STARTUP = [
  /^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: )?I (tensorflow|external|xla)\//,
  /^I\d{4} .*\d+ \S+\.cc:\d+\]/, // absl: I0000 00:00:1763872980.123456 4242 cpu_feature_guard.cc:227]
  /^WARNING: All log messages before absl::InitializeLog\(\) is called/,
  /^To enable the following instructions: /,
  /Unable to register (cuDNN|cuFFT|cuBLAS) factory/,
  /computation placer already registered/,
  /Could not find cuda drivers on your machine/,
  /oneDNN supports DT_HALF only on platforms with AVX-512/,
  /failed call to cuInit: .*CUDA_ERROR_NO_DEVICE/,
];

/** The lines of a log. A line may be spread over several entries of one stream. */
export function logLines(entries: readonly LogEntry[]): LogLine[] {
  const lines: LogLine[] = [];
  const unfinished = new Map<string, LogLine>();
  for (const { seq, stream, text } of entries) {
    for (const [index, part] of text.split(/(?<=\n)/).entries()) {
      let line = unfinished.get(stream);
      if (line) line.text += part;
      else lines.push((line = { key: `${seq}.${index}`, stream, text: part, isStartup: false }));
      if (part.endsWith("\n")) unfinished.delete(stream);
      else unfinished.set(stream, line);
    }
  }
  for (const line of lines) line.isStartup = STARTUP.some((pattern) => pattern.test(line.text));
  return lines;
}
