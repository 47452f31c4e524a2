import { readFileSync } from 'node:fs'

/** Reads a file as text, without the byte order mark that editors on Windows put before it. */
export function readText(path: string): string {
  return new TextDecoder().decode(readFileSync(path))
}
