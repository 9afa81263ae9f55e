"""Why a server does what was found: written by people, and looked up in its source or its manual."""

# By the finding's id, and where it differs by server by (id, server).
WHY = {
}


def why(finding, server):
    return WHY.get((finding, server)) or WHY.get(finding)
