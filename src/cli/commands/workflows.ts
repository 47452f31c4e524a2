import { type Command, Option } from 'commander'
import { SluiceError } from '../../base/errors.ts'
import { messageOf } from '../../base/thrown.ts'
import type { GraphSurroundings } from '../../flows/graph/read-graph.ts'
import { readText } from '../read-text.ts'
import { reportErrors, showOnce } from '../view.ts'
import { printable } from '../words.ts'

interface CheckFlags {
  readonly config?: string
  readonly json?: true
}

const DETAILS = `
Reads the definition of a graph and prints every fault with its path. With --config, tasks and limits must be among the
types and limits of that file; without it they are not checked, but for those that the definition itself defines.

With --json: { name, hash, steps, faults: [{ path, code, message }] }; hash is null for a definition with faults.

Exit code: 0; 1 when the definition has faults; 2 for a wrong option or a file that cannot be read.`

/** Adds `sluice workflows`. */
export function registerWorkflows(program: Command): void {
  const command = program.command('workflows').description('graphs that are written in JSON')
  command
    .command('check')
    .description('every fault of a definition, with its path')
    .argument('<file>', 'the definition, as JSON')
    .addOption(new Option('--config <file>', 'the configuration of sluice serve, which names tasks and limits'))
    .addOption(new Option('--json', 'print JSON'))
    .addHelpText('after', DETAILS)
    .action(check)
}

function check(file: string, { config, json }: CheckFlags): Promise<void> {
  return reportErrors(async () => {
    const [{ readGraph }, { hashOf }] = await Promise.all([
      import('../../flows/graph/read-graph.ts'),
      import('../../flows/graph/form.ts'),
    ])
    const { form, name, faults } = readGraph(textOf(file), config === undefined ? {} : await surroundings(config))
    const steps = form === null ? [] : Object.keys(form.steps)
    const hash = form && hashOf(form)
    await showOnce(json ? { json } : {}, () => ({
      data: { name, hash, steps, faults },
      lines: (paint) =>
        form === null
          ? faults.map(({ path, code, message }) => `${paint('bold', path || '-')}  ${code}  ${printable(message)}`)
          : [`${name}: ${steps.length} ${steps.length === 1 ? 'step' : 'steps'}, no fault, hash ${hash}`],
    }))
    if (form === null) process.exitCode = 1
  })
}

async function surroundings(file: string): Promise<GraphSurroundings> {
  const [{ readServeConfig }, { readConfigFile }, { useOf }] = await Promise.all([
    import('../serve/config.ts'),
    import('../serve/settings.ts'),
    import('../../policy/limits/define.ts'),
  ])
  const { tasks, limits } = readServeConfig(readConfigFile({ text: file, from: '--config' }))
  const policies = new Map(limits.map((each) => [each.name, useOf(each).policy]))
  return { tasks: tasks.map(({ name }) => name), policy: (limit) => policies.get(limit) ?? null }
}

function textOf(file: string): string {
  try {
    return readText(file)
  } catch (error) {
    throw new SluiceError('cli.usage', `The file ${file} cannot be read: ${messageOf(error)}.`)
  }
}
