"""A program that speaks GTP for Hex and plays the first empty cell, until it misbehaves as it is told to.

Run as `python stand_in_engine.py CONDUCT [PLY]`: from the ply on (counted in stones on the board) it does
what `CONDUCT` says: play, illegal, nonsense, crash, silent, refuse or resign.
"""

import sys
import time


def main(conduct: str, ply: int) -> None:
    size, stones = 11, []
    for line in sys.stdin:
        command, *words = line.split()
        answer = ""
        if command == "boardsize":
            size = int(words[0])
        elif command == "clear_board":
            stones = []
        elif command == "play":
            if words[1] in stones:
                print(f"? {words[1]} is taken\n", flush=True)
                continue
            stones.append(words[1])
        elif command == "genmove":
            cells = [f"{'abcdefghijk'[i % size]}{i // size + 1}" for i in range(size * size)]
            answer = next(cell for cell in cells if cell not in stones)
            if len(stones) >= ply:
                if conduct == "crash":
                    sys.exit(7)
                elif conduct == "silent":
                    time.sleep(60)
                elif conduct == "refuse":
                    print("? I will not\n", flush=True)
                    continue
                answer = {"illegal": (stones or [answer])[0], "nonsense": "??", "resign": "Resign"}.get(
                    conduct, answer
                )
            stones.append(answer)
        print(f"= {answer}\n", flush=True)


main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
