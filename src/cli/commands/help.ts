import type { Command } from 'commander'
import { didYouMean } from '../../base/nearest.ts'

/** Adds `sluice help`, which takes the names of a command and of one below it. */
export function registerHelp(program: Command): void {
  program
    .helpCommand(false)
    .command('help')
    .description('how a command is used: sluice help jobs cancel')
    .argument('[command...]')
    .action((names: readonly string[]) => {
      let at = program
      const path: string[] = []
      for (const name of names) {
        const below = at.commands.find((each) => each.name() === name)
        if (!below) {
          const hint = didYouMean(
            name,
            at.commands.map((each) => each.name()),
          )
          program.error(
            `error: unknown command '${[...names].join(' ')}'${hint}${['sluice', 'help', ...path].join(' ')} lists those that there are.`,
          )
        }
        at = below
        path.push(name)
      }
      at.help()
    })
}
