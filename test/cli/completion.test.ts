// Completion, asked of the shells themselves.
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { missing } from '../services.ts'
import { folder, sluice } from './terminal.ts'

/** The words that a shell offers behind `sluice` and what was typed; the last is not yet complete. */
type Offered = (script: string, typed: readonly string[]) => string[]

const BASH = 'COMP_WORDS=(sluice "$@"); COMP_CWORD=$#; _sluice; printf "%s\\n" "${COMPREPLY[@]}"'
// A terminal of its own, into which Tab is typed. The command prints what it became.
const ZSH = `zmodload zsh/zpty
zpty sluice zsh -f -i
zpty -w sluice "unsetopt zle_bracketed_paste; autoload -Uz compinit; compinit -u -D; source $1"
zpty -w sluice 'sluice() print -r -- "RAN:$*"; print -r -- REA""DY'
zpty -r -m sluice seen '*READY*'
zpty -w -n sluice "sluice $2"$'\\t\\n'
zpty -r -m sluice seen $'*RAN:*\\n*'
zpty -d sluice
print -r -- "$\{\${seen##*RAN:}%%[[:cntrl:]]*}"`

const inFolder = (script: string): string => {
  const path = join(folder(), 'script')
  writeFileSync(path, script)
  return path
}
const run = (shell: string, ...args: readonly string[]): string[] =>
  execFileSync(shell, args, { timeout: 60_000 }).toString().trim().split('\n')

const SHELLS: readonly [shell: string, offered: Offered][] = [
  ['bash', (script, typed) => run('bash', '-c', `${script}\n${BASH}`, 'bash', ...typed)],
  [
    'fish',
    (script, typed) =>
      run('fish', '-N', '-c', `source ${inFolder(script)}; complete -C '${['sluice', ...typed].join(' ')}'`),
  ],
  // It types the one word that fits, so what was typed has to be enough for one.
  ['zsh', (script, typed) => run('zsh', '-f', '-c', ZSH, 'zsh', inFolder(script), typed.join(' ')).map(lastOf)],
]
const lastOf = (line: string): string => line.trim().split(' ').at(-1) ?? ''

function has(shell: string): boolean {
  try {
    execFileSync(shell, ['--version'])
    return true
  } catch {
    return missing(`${shell} is not installed`, `completion in ${shell}`) !== null
  }
}

const COMPLETED: readonly (readonly [typed: string, word: string | null])[] = [
  ['doc', 'doctor'],
  ['conf', 'config'],
  ['jobs resch', 'reschedule'],
  ['jobs --store x move --dry', '--dry-run'],
  ['limits pause --unt', '--until'],
  // The name of a task, though a command has it, too.
  ['enqueue jobs retr', null],
  ['enqueue jobs --atte', '--attempts'],
]

test.each(SHELLS.filter(([shell]) => has(shell)))(
  '%s completes commands, verbs and options',
  async (shell, offered) => {
    const { out } = await sluice(['completion', shell])
    const typed = COMPLETED.map(([text]) => [text, offered(out, text.split(' ')).filter((word) => word !== '')])
    // Where nothing fits, zsh leaves the word as it is, and the others offer none.
    const unfit = (text: string): string[] => (shell === 'zsh' ? [lastOf(text)] : [])
    expect(typed).toEqual(COMPLETED.map(([text, word]) => [text, word === null ? unfit(text) : [word]]))
  },
)

test('every command and every verb is offered', async () => {
  const { out: help } = await sluice(['--help'])
  const { out: script } = await sluice(['completion', 'bash'])
  const listed = [...help.matchAll(/^ {2}([a-z]+)(?: |$)/gm)].flatMap(([, name = '']) => (name === 'help' ? [] : name))
  expect(listed.length).toBeGreaterThan(20)
  const offered = SHELLS[0]?.[1](script, [''])
  expect(offered).toEqual(expect.arrayContaining(listed))
  expect(SHELLS[0]?.[1](script, ['jobs', 're'])).toEqual(['retry', 'reprioritize', 'reschedule'])
})

test('another shell is refused', async () => {
  expect(await sluice(['completion', 'csh'])).toMatchObject({ code: 2, out: '' })
})
