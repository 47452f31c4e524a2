/** The checks of every call before its command begins. No command has to check it by itself. */
import type { Command, Option } from 'commander'
import { SluiceError } from '../base/errors.ts'
import { requireName } from './view.ts'

/** Arguments and options whose value names something, by what stands in their brackets. */
const NAMES: ReadonlySet<string> = new Set(['id', 'ids', 'limit', 'name', 'queue', 'states', 'step', 'task'])
/** Those whose value may be any text but the empty one, as of an unset variable of a shell. */
const TEXTS: ReadonlySet<string> = new Set(['file', 'key', 'path', 'url'])
/** Options that a command reads only beside this option or argument. */
const BESIDE: Readonly<Record<string, string>> = {
  'demo --port': '--dashboard',
  'enqueue --weight': '--limit',
  'export --json': '--to',
  'forecast --key': '<limit>',
  'forecast --store': '<limit>',
  'forecast --watch': '<limit>',
  'limits --key': '<name>',
}

/**
 * Refuses calls of which a command would ignore a part, and empty names. It covers the commands that the program has by now.
 */
export function checkCalls(program: Command): void {
  refuseTwice(program)
  program.hook('preAction', (_, command) => {
    try {
      checkLevels(command)
      checkBeside(command)
      checkNames(command)
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error
      command.error(`error ${error.code}: ${error.message}`)
    }
  })
}

/** The second value of an option would silently replace the first. */
function refuseTwice(command: Command): void {
  for (const option of command.options) {
    // Those with a parser of their own collect their values.
    if (!takesValue(option) || (option.parseArg && !option.argChoices)) continue
    let times = 0
    command.on(`option:${option.name()}`, () => {
      if (++times > 1) command.error(`error cli.usage: ${option.long} is given twice. Expected it once.`)
    })
  }
  for (const below of command.commands) refuseTwice(below)
}

/** A command ignores options of the command above that it does not have, and those that it has stand in for its own. */
function checkLevels(command: Command): void {
  for (let above = command.parent; above; above = above.parent)
    for (const option of above.options) {
      const name = option.attributeName()
      if (!isGiven(above, option)) continue
      const own = command.options.find((each) => each.attributeName() === name)
      if (!own)
        throw new SluiceError('cli.usage', `${option.long} does not belong to ${pathOf(command)}. Leave it out.`)
      if (takesValue(own) && isGiven(command, own))
        throw new SluiceError('cli.usage', `${option.long} is given twice. Give it once, behind ${command.name()}.`)
    }
}

/** Alone the option would be ignored. */
function checkBeside(command: Command): void {
  for (const option of command.options) {
    const other = BESIDE[`${pathOf(command)} ${option.long}`]
    if (other === undefined || !isGiven(command, option) || isBeside(command, other)) continue
    throw new SluiceError('cli.usage', `${option.long} needs ${other}. Add ${other}, or leave ${option.long} out.`)
  }
}

function isBeside(command: Command, name: string): boolean {
  const option = command.options.find(({ long }) => long === name)
  if (option) return isGiven(command, option)
  return (
    command.processedArgs[command.registeredArguments.findIndex((each) => `<${each.name()}>` === name)] !== undefined
  )
}

function isGiven(command: Command, option: Option): boolean {
  return command.getOptionValueSource(option.attributeName()) === 'cli'
}

function checkNames(command: Command): void {
  for (const [i, argument] of command.registeredArguments.entries()) {
    const given: unknown = command.processedArgs[i]
    if (TEXTS.has(argument.name()) && given === '')
      throw new SluiceError('cli.usage', `<${argument.name()}> is empty. Expected the path of a file.`)
    if (!NAMES.has(argument.name())) continue
    for (const text of Array.isArray(given) ? given : [given])
      requireName(text as string | undefined, `The ${argument.name().replace(/^ids$/, 'id')}`)
  }
  for (const at of [command, command.parent])
    for (const option of at?.options ?? []) {
      const value: unknown = at?.getOptionValue(option.attributeName())
      const kind = /[<[](\w+)[\]>]/.exec(option.flags)?.[1] ?? ''
      if (NAMES.has(kind)) requireName(value as string | undefined, option.long ?? option.flags)
      if (TEXTS.has(kind) && value === '')
        throw new SluiceError(
          'cli.usage',
          `${option.long} is empty. Expected the ${kind}; leave ${option.long} out if there is none.`,
        )
    }
}

function takesValue(option: Option): boolean {
  return option.required || option.optional
}

/** The words of a command behind `sluice`. */
function pathOf(command: Command): string {
  const above = command.parent
  return above?.parent ? `${pathOf(above)} ${command.name()}` : command.name()
}
