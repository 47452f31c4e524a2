import { type Command, Option } from 'commander'
import { SluiceError } from '../../base/errors.ts'
import { didYouMean } from '../../base/nearest.ts'
import { quote } from '../../base/options.ts'
import { normalisePolicy } from '../../policy/limits/normalise.ts'
import type { AnyPreset } from '../../presets/every-preset.ts'
import type { PresetLimit } from '../../presets/preset.ts'
import { type Column, tableOf } from '../table.ts'
import { showOnce, type View } from '../view.ts'
import { policyInWords } from '../../policy/limits/policy-words.ts'

const DETAILS = `
Without a name: every API, with its plans. With a name: its limits by plan, what one budget belongs to, the headers that
report it, how a refusal is told, and the pages that confirm the numbers with the day on which they were read.

  import { xero } from 'sluice/presets'
  const { minute, concurrent } = xero('standard')

Exit code: 0; 2 for an unknown name.`

/** Adds `sluice presets`. */
export function registerPresets(program: Command): void {
  program
    .command('presets')
    .description('the limits of real APIs that sluice/presets has')
    .argument('[name]', 'one API: its limits by plan')
    .addOption(new Option('--json', 'print JSON'))
    .addHelpText('after', DETAILS)
    .action(async (name: string | undefined, flags: { readonly json?: true }) => {
      const { presets } = await import('../../presets/every-preset.ts')
      await showOnce(flags, () => (name === undefined ? everyPreset(presets) : onePreset(presets, name)))
    })
}

const COLUMNS: readonly Column[] = [{ head: 'preset' }, { head: 'API' }, { head: 'plans' }, { head: 'read' }]
const LIMIT_COLUMNS: readonly Column[] = [{ head: 'plan' }, { head: 'limit' }, { head: 'policy' }, { head: 'for each' }]

function everyPreset(presets: readonly AnyPreset[]): View {
  return {
    data: presets.map(dataOf),
    lines: (paint) => [
      ...tableOf(
        COLUMNS,
        presets.map(({ about, plans }) => [
          about.name,
          about.title,
          plans ? Object.keys(plans).join(', ') : 'your own numbers',
          about.sources[0]?.read ?? '',
        ]),
        paint,
      ),
    ],
  }
}

function onePreset(presets: readonly AnyPreset[], name: string): View {
  const found = presets.find(({ about }) => about.name === name)
  if (!found) {
    const names = presets.map(({ about }) => about.name)
    throw new SluiceError(
      'cli.usage',
      `There is no preset ${quote(name)}${didYouMean(name, names)}sluice presets lists all.`,
    )
  }
  const { about, plans, counted } = found
  const { status, wait, mark, otherwise } = about.refusal
  const told = wait.length > 0 ? `wait in ${wait.join(', ')}` : `no wait is told${otherwise ? `: ${otherwise}` : ''}`
  const rows = plans
    ? Object.entries(plans).flatMap(([plan, limits]) => limitRows(plan, limits))
    : limitRows('your numbers', counted ?? {})
  return {
    data: dataOf(found),
    lines: (paint) => [
      `${paint('bold', about.title)}${about.note === undefined ? '' : `: ${about.note}`}`,
      ...tableOf(LIMIT_COLUMNS, rows, paint),
      ...(about.headers.length === 0 ? [] : [`headers   ${about.headers.join(', ')}`]),
      `refusal   ${status.join(' or ')}, ${told}${mark === undefined ? '' : `; the body has ${mark}`}`,
      ...about.sources.map(({ url, read, dated }) => `read      ${read}${dated ? `, dated ${dated}` : ''}: ${url}`),
    ],
  }
}

function limitRows(plan: string, limits: Readonly<Record<string, PresetLimit>>): string[][] {
  return Object.entries(limits).map(([name, { policy, key, unit }]) => [
    plan,
    unit === undefined ? name : `${name} (${unit.split(/[:;]/)[0]})`,
    wordsOf(policy),
    key ?? 'all calls together',
  ])
}

/** A policy that waits for a number is shown as its text. */
function wordsOf(policy: PresetLimit['policy']): string {
  const { policy: text } = policy
  return text?.includes('{count}') ? text.replace('{count}', 'n') : policyInWords(normalisePolicy(policy, 'a preset'))
}

function dataOf({ about, plans, counted }: AnyPreset): object {
  return { ...about, ...(plans && { plans }), ...(counted && { counted }) }
}
