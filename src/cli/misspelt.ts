import type { Command } from 'commander'
import { nearest } from '../base/nearest.ts'
import { printable } from './words.ts'

const TOO_MANY = /^error: too many arguments for '([\w-]+)'.* but got \d+: ([^\s,]+)/

/** The message of a call that cannot be read, as the one line of an error without commands to the terminal. */
export function usageLine(message: string, program: Command): string {
  const line = withHint(message, program)
    .trimEnd()
    .replaceAll(/\s*\n\s*/g, ' ')
  return `${printable(line.replace(/^error: /, 'error cli.usage: '))}\n`
}

/** Adds the command that was likely meant: one below another is read as its argument if it is misspelt. */
function withHint(message: string, program: Command): string {
  const [, name, given] = TOO_MANY.exec(message) ?? []
  const below = program.commands.find((each) => each.name() === name)?.commands.map((each) => each.name()) ?? []
  const near = given === undefined ? null : nearest(given, below)
  return near === null ? message : `${message}(Did you mean ${name} ${near}?)\n`
}
