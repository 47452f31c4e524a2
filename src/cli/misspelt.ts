import type { Command } from 'commander'
import { nearest } from '../base/nearest.ts'

const TOO_MANY = /^error: too many arguments for '([\w-]+)'.* but got \d+: ([^\s,]+)/

/** Adds the command that was likely meant: one below another is read as its argument if it is misspelt. */
export function withHint(message: string, program: Command): string {
  const [, name, given] = TOO_MANY.exec(message) ?? []
  const below = program.commands.find((each) => each.name() === name)?.commands.map((each) => each.name()) ?? []
  const near = given === undefined ? null : nearest(given, below)
  return near === null ? message : `${message}(Did you mean ${name} ${near}?)\n`
}
