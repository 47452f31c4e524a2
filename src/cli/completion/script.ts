import type { Command } from 'commander'

/** The shells that completion knows. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const

/** A shell that completion knows. */
export type Shell = (typeof SHELLS)[number]

/** The words that may follow one command. */
interface Place {
  /** The names of the commands that lead to it, each behind a space; empty for the program itself. */
  readonly path: string
  readonly words: readonly string[]
}

/** The script by which a shell completes commands and options. It names all of them, so it starts no process. */
export function completionScript(shell: Shell, program: Command): string {
  const places = placesOf(program, '')
  if (shell === 'fish') return fishScript(places)
  const name = program.name()
  const paths = places.filter(({ path }) => path !== '').map(({ path }) => `'${path}'`)
  const cases = places.map(({ path, words }) => `    '${path}') list='${words.join(' ')}' ;;`)
  const [current, offer] =
    shell === 'bash'
      ? ['"${COMP_WORDS[@]:1:COMP_CWORD-1}"', 'COMPREPLY=($(compgen -W "$list" -- "${COMP_WORDS[COMP_CWORD]}"))']
      : ['"${(@)words[2,CURRENT-1]}"', 'compadd -- ${=list}']
  return [
    ...(shell === 'zsh' ? [`#compdef ${name}`] : []),
    `_${name}() {`,
    `  local place='' list='' word`,
    `  for word in ${current}; do`,
    `    case "$place $word" in`,
    `      ${paths.join('|')}) place="$place $word" ;;`,
    '    esac',
    '  done',
    '  case "$place" in',
    ...cases,
    '  esac',
    `  ${offer}`,
    '}',
    shell === 'bash' ? `complete -o default -F _${name} ${name}` : `compdef _${name} ${name}`,
    '',
  ].join('\n')
}

/** Each line holds at one place alone, which a function finds as the other shells do. */
function fishScript(places: readonly Place[]): string {
  const paths = places.filter(({ path }) => path !== '').map(({ path }) => `'${path}'`)
  return [
    'function __sluice_at',
    `  set -l place ''`,
    '  for word in (commandline -opc)[2..-1]',
    `    contains -- "$place $word" ${paths.join(' ')}; and set place "$place $word"`,
    '  end',
    '  test "$place" = "$argv[1]"',
    'end',
    ...places.flatMap(({ path, words }) =>
      words.map((word) => {
        const what = word.startsWith('--') ? `-l ${word.slice(2)}` : `-f -a ${word}`
        return `complete -c sluice -n "__sluice_at '${path}'" ${what}`
      }),
    ),
    '',
  ].join('\n')
}

function placesOf(command: Command, path: string): Place[] {
  const options = command.options.flatMap(({ long }) => (long === undefined || long === null ? [] : [long]))
  const words = [...command.commands.map((each) => each.name()), ...options, '--help']
  return [{ path, words }, ...command.commands.flatMap((each) => placesOf(each, `${path} ${each.name()}`))]
}
